package pgmarks

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// nobody is the role of a guard that is not connected.
const nobody = "nobody"

// removes calls Uninstall, and checks that it was blocked for a reason, or dropped everything if
// there is none.
func (d database) removes(
	t *testing.T, guard string, o marks.Removing, reason string,
) marks.Removal {
	t.Helper()
	o.Drop = true
	r, err := Uninstall(t.Context(), d.url("postgres"), guard, o)
	must.Succeed(t, err)
	schemas := d.list(t, "select count(*)::text from pg_namespace where nspname ~ '^ringfence'")[0]
	switch why := strings.Join(r.Blocked, "; "); {
	case reason == "" && (why != "" || schemas != "0"):
		t.Errorf("blocked: %q; schemas that are left: %s", why, schemas)
	case reason != "" && (!strings.Contains(why, reason) || schemas == "0"):
		t.Errorf("blocked: %q, want %q; schemas that are left: %s", why, reason, schemas)
	}
	return r
}

// Each of these relies on the schema, until it is undone.
func TestNothingIsRemovedWhileSomethingReliesOnIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		begin  func(t *testing.T, d *realm) (undo func())
	}{
		"a session": {"a session is open: pid", func(t *testing.T, d *realm) func() {
			c, next := d.admitted(t, d.lead(t, d.next()))
			if next != marks.Admitted {
				t.Fatalf("step %v", next)
			}
			return func() { d.closed(t, c) }
		}},
		"a transaction": {"a transaction is under a token: pid", func(t *testing.T, d *realm) func() {
			c, _ := d.enters(t, d.lead(t, d.next()), pgx.TxOptions{})
			return func() { d.closed(t, c) }
		}},
		"a sealed table": {"sealed: public.entry: guard unprotect", func(t *testing.T, d *realm) func() {
			d.sql(t, "create trigger ringfence_seal before insert on entry for each statement execute "+
				"function ringfence.seal('orders')")
			return func() { d.sql(t, "drop trigger ringfence_seal on entry") }
		}},
		"a view": {"view public.seen depends on it", func(t *testing.T, d *realm) func() {
			d.sql(t, "create view seen as select * from ringfence_private.mark")
			return func() { d.sql(t, "drop view seen") }
		}},
		"a default": {"default value for column token of table public.entry depends on it",
			func(t *testing.T, d *realm) func() {
				d.sql(t, "alter table entry alter token set default ringfence.version()")
				return func() { d.sql(t, "alter table entry alter token drop default") }
			}},
		"a policy": {"policy mine on table public.entry depends on it",
			func(t *testing.T, d *realm) func() {
				d.sql(t, "create policy mine on entry using (ringfence.holds('orders', token))")
				return func() { d.sql(t, "drop policy mine on entry") }
			}},
		"somebody's table": {"ringfence.mine is nothing of ringfence",
			func(t *testing.T, d *realm) func() {
				d.sql(t, "create table ringfence.mine (n serial)")
				return func() { d.sql(t, "drop table ringfence.mine") }
			}},
		"a list of another database": {"the list of sessions is not of this database, so everybody " +
			"counts, also: pid", func(t *testing.T, d *realm) func() {
			d.connect(t, "app")
			d.sql(t, "update ringfence_private.installation set registry = ''")
			return func() {
				d.sql(t, "update ringfence_private.installation set registry = ringfence.registry(); update "+
					"ringfence_private.installation set written = xmin")
			}
		}},
		"checkpoints": {"--with-data", func(t *testing.T, d *realm) func() {
			d.sql(t, "insert into ringfence_private.checkpoint (task, resource, version, token, "+
				"checkpoint) values ('t', 'orders', 1, 1, '{}')")
			return func() { d.sql(t, "delete from ringfence_private.checkpoint") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := led(t)
			undo := test.begin(t, d)
			d.s.Close()
			d.removes(t, nobody, marks.Removing{}, test.reason)
			undo()
			d.removes(t, nobody, marks.Removing{}, "")
		})
	}
}

// closed ends a connection and waits until its backend is gone.
func (d database) closed(t *testing.T, c *pgx.Conn) {
	t.Helper()
	pid := c.PgConn().PID()
	must.Succeed(t, c.Close(t.Context()))
	d.until(t, "select (count(*) = 0)::text from pg_stat_activity where pid = $1", int64(pid))
}

func TestAGuardThatIsConnectedKeepsItsSchema(t *testing.T) {
	t.Parallel()
	d := led(t)
	d.lead(t, d.next())
	d.removes(t, guardRole, marks.Removing{}, "a guard is connected from 127.0.0.1: stop it")
	d.s.Close()
	d.until(t, "select (count(*) = 0)::text from pg_stat_activity where application_name = "+
		"'ringfence' and datname = current_database()")
	d.removes(t, guardRole, marks.Removing{}, "")
	if _, err := raiseTo(t.Context(), d.open(t, Options{}), d.next()); err == nil ||
		!strings.Contains(err.Error(), "not installed") {
		t.Errorf("a guard that comes later: %v", err)
	}
}

// Whoever is admitted between the look and the drop has begun before it, so the drop waits and then
// finds it.
func TestASessionThatIsAdmittedMeanwhileIsFound(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.next())
	app, registering := d.connect(t, "app"), d.connect(t, guardRole)
	sess, err := identify(t.Context(), app)
	must.Succeed(t, err)
	start, err := parseBirth(sess.Birth)
	must.Succeed(t, err)
	execute(t, registering, "begin")
	execute(t, registering, "select step from ringfence.register($1, $2, $3, $4, $5, array[''], $6)",
		sess.ID, start, sess.Run, []string{string(c.Resource)}, []int64{int64(c.Token)}, c.Issuer)
	d.s.Close()
	removed := make(chan error, 1)
	var r marks.Removal
	go func() {
		var err error
		r, err = Uninstall(t.Context(), d.url("postgres"), nobody, marks.Removing{Drop: true})
		removed <- err
	}()
	d.waits(t, "lock table", removed)
	execute(t, registering, "commit")
	if err := <-removed; err != nil || len(r.Blocked) != 1 || !strings.Contains(r.Blocked[0], "a "+
		"session is open") {
		t.Errorf("%q, %v", r.Blocked, err)
	}
	if n := d.list(t, "select count(*)::text from ringfence_private.session"); n[0] != "1" {
		t.Errorf("%s sessions are recorded", n[0])
	}
}

// Somebody who begins while the drop is under way fails, and writes nothing.
func TestATransactionThatBeginsDuringTheRemovalWritesNothing(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.next())
	d.s.Close()
	dropping := d.connect(t, "postgres")
	execute(t, dropping, "begin")
	execute(t, dropping, "lock table ringfence_private.mark, ringfence_private.gate, "+
		"ringfence_private.entered, ringfence_private.installation in access exclusive mode")
	began := d.begins(t, c, pgx.ReadCommitted)
	d.waits(t, "ringfence.enter", began)
	execute(t, dropping, "drop schema ringfence, ringfence_private, ringfence_installed cascade")
	execute(t, dropping, "commit")
	if err := <-began; err == nil {
		t.Error("a transaction has begun under a token")
	}
}

func TestAnotherVersionIsNotRemoved(t *testing.T) {
	t.Parallel()
	d := installed(t)
	for version, want := range map[string]string{"99": "use the newer program"} {
		d.sql(t, "update ringfence_private.installation set version = "+version)
		_, err := Uninstall(t.Context(), d.url("postgres"), nobody, marks.Removing{Drop: true})
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("version %s: %v", version, err)
		}
	}
}

func TestARoleThatOwnsNothingRemovesNothing(t *testing.T) {
	t.Parallel()
	d := installed(t)
	_, err := Uninstall(t.Context(), d.url("app"), nobody, marks.Removing{Drop: true})
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") ||
		!strings.Contains(err.Error(), "GUARD_POSTGRES_ADMIN") {
		t.Error(err)
	}
}
