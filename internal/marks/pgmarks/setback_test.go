package pgmarks

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Restored data contain an older leader's mark. The data do not show that they were restored: the
// server's identifier and timeline are the same. The mark must admit nobody until it has been
// raised again.

// leader is an authority of issuer zk:a where this token leads.
type leader fence.Token

func (l leader) Issuer(context.Context) (fence.Issuer, error) { return "zk:a", nil }
func (l leader) Verifies() bool                               { return true }

func (l leader) Verify(_ context.Context, claims []marks.Presented) ([]fence.Claim, error) {
	all := marks.Under("zk:a", claims)
	for _, c := range all {
		if c.Token != fence.Token(l) {
			return all, &fence.Refusal{Reason: fence.ErrNotLeader, Claim: c,
				Message: "does not lead", Detail: "-", Hint: "-"}
		}
	}
	return all, nil
}

func (l leader) Confirm(ctx context.Context, c fence.Claim, _ marks.Mark) (fence.Claim, error) {
	all, err := l.Verify(ctx, marks.Present(c))
	return all[0], err
}

// opens opens a session of an application and has it admitted through a new Admission, which
// remembers nothing.
func (r *realm) opens(t *testing.T, a marks.Authority, c fence.Claim) (*pgx.Conn, error) {
	t.Helper()
	conn := r.connect(t, "app")
	s, err := identify(t.Context(), conn)
	must.Succeed(t, err)
	return conn, (&marks.Admission{Store: r.s, Authority: a}).Admit(t.Context(),
		s, marks.Present(c))
}

// program runs a program, which must succeed.
func program(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// own returns a realm on a server that no other test uses, and the directory of its data, which can
// be copied and restored.
func own(t *testing.T) (r *realm, data string) {
	t.Helper()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	d.roles(t)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole, "app"))
	d.sql(t, "create table entry (token bigint); grant all on entry to app")
	found, err := filepath.Glob(filepath.Join(d.pg.Dir(), "*", "PG_VERSION"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no data directory: %v %v", found, err)
	}
	return &realm{database: d, s: d.open(t, Options{})}, filepath.Dir(found[0])
}

// stopped stops the server, runs meanwhile and starts the server again.
func (r *realm) stopped(t *testing.T, meanwhile func()) {
	t.Helper()
	must.Succeed(t, r.pg.Stop())
	meanwhile()
	must.Succeed(t, r.pg.Start(t.Context()))
}

func TestRestoredDataAdmitNoOlderLeader(t *testing.T) {
	t.Parallel()
	for name, copyData := range map[string]func(t *testing.T, r *realm, data, to string){
		"a snapshot of the disk": func(t *testing.T, r *realm, data, to string) {
			r.stopped(t, func() { program(t, "cp", "-a", data, to) })
			// after the restart the mark is unconfirmed, and the copy must have it confirmed
			r.lead(t, claimed(5))
			r.stopped(t, func() { program(t, "rm", "-rf", to); program(t, "cp", "-a", data, to) })
		},
		"a base backup": func(t *testing.T, r *realm, data, to string) {
			serverstest.NotOlder(t, r.pg, "pg_basebackup")
			program(t, "pg_basebackup", "-d", r.url("postgres"), "-D", to, "-X",
				"stream", "-c", "fast")
			program(t, "chown", "-R", "--reference="+data, to)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, data := own(t)
			old, newer := r.lead(t, claimed(5)), claimed(7)
			r.enters(t, old, pgx.TxOptions{})
			backup := data + "-copy"
			copyData(t, r, data, backup)
			r.lead(t, newer)
			r.stopped(t, func() { program(t, "rm", "-rf", data); program(t, "mv", backup, data) })
			r.s = r.open(t, Options{}) // the guard is restarted too

			found, err := r.s.Marks(t.Context())
			if err != nil || len(found) != 1 || found[0].Token != 5 || found[0].Confirmed {
				t.Fatalf("marks after the restore: %+v, %v", found, err)
			}
			r.outside(t, old, fence.ErrNotRaised)
			if _, err := r.opens(t, leader(7), old); !errors.Is(err, fence.ErrNotLeader) {
				t.Errorf("through a guard the older leader gets %v", err)
			}
			if _, err := r.opens(t, leader(7), newer); err != nil {
				t.Errorf("the newer leader: %v", err)
			}
			r.outside(t, old, fence.ErrStale)
			r.enters(t, newer, pgx.TxOptions{})
		})
	}
}

// dump copies the database with pg_dump; restore restores it into the running server.
func (r *realm) dump(t *testing.T, more ...string) (restore func()) {
	t.Helper()
	serverstest.NotOlder(t, r.pg, "pg_dump")
	file := filepath.Join(t.TempDir(), "dump")
	program(t, "pg_dump", append(more, "-Fc", "-f", file, r.url("postgres"))...)
	return func() {
		t.Helper()
		program(t, "pg_restore", "--clean", "--if-exists", "-d", r.url("postgres"), file)
	}
}

// The dump is restored into the running server that it was taken from, so even the run is the same.
func TestADumpThatIsRestoredAdmitsNoOlderLeader(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{
		"complete": nil, "without unlogged tables": {"--no-unlogged-table-data"},
		"our schemas alone": {"--schema=ringfence", "--schema=ringfence_private"},
	} {
		t.Run(name, func(t *testing.T) {
			r := led(t)
			old, newer := r.lead(t, claimed(5)), claimed(7)
			restore := r.dump(t, more...)
			r.lead(t, newer)
			session, step := r.admitted(t, newer)
			if step != marks.Admitted {
				t.Fatalf("step %v", step)
			}
			restore()

			found, err := r.s.Marks(t.Context())
			if err != nil || len(found) != 1 || found[0].Token != 5 || found[0].Confirmed ||
				found[0].Continued {
				t.Fatalf("marks after the restore: %+v, %v", found, err)
			}
			r.outside(t, old, fence.ErrNotRaised)
			if _, err := r.opens(t, leader(9), claimed(9)); !errors.Is(err, fence.ErrNotInstalled) {
				t.Errorf("the newest leader, and nobody knows who is at work: %v", err)
			}
			must.Succeed(t, Install(t.Context(), r.url("postgres"), guardRole))
			if _, err := r.opens(t, leader(7), old); !errors.Is(err, fence.ErrNotLeader) {
				t.Errorf("the older leader gets %v", err)
			}
			_, err = r.opens(t, marks.Unverified{Name: "zk:a"}, old)
			if !errors.Is(err, fence.ErrMarkInDoubt) {
				t.Errorf("without a coordinator the older leader gets %v", err)
			}
			if _, err := r.opens(t, leader(9), claimed(9)); err != nil {
				t.Errorf("the newest leader: %v", err)
			}
			if session.Ping(t.Context()) == nil {
				t.Error("a session that the restored registry does not list is still alive " +
					"under the newest leader")
			}
		})
	}
}

// A new schema has an empty registry, while sessions from the old registry are still alive.
func TestANewSchemaEndsEverySessionBeforeTheFirstNewcomerIsAdmitted(t *testing.T) {
	t.Parallel()
	r := led(t)
	old := r.lead(t, claimed(5))
	session, step := r.admitted(t, old)
	if step != marks.Admitted {
		t.Fatalf("step %v", step)
	}
	r.sql(t, "drop schema ringfence, ringfence_private cascade")
	must.Succeed(t, Install(t.Context(), r.url("postgres"), guardRole))
	if err := session.Ping(t.Context()); err != nil {
		t.Fatal("the new schema itself has ended the session, which proves nothing")
	}
	_, err := r.opens(t, marks.Unverified{Name: "zk:a"}, claimed(4))
	if !errors.Is(err, fence.ErrMarkInDoubt) {
		t.Errorf("without a coordinator: %v", err)
	}
	newcomer, err := r.opens(t, leader(7), claimed(7))
	must.Succeed(t, err)
	execute(t, newcomer, "insert into entry values (7)")
	if session.Ping(t.Context()) == nil {
		t.Error("a session of the older leader is still alive")
	}
	for range 3 { // these must end nobody
		_, err := r.opens(t, leader(7), claimed(7))
		must.Succeed(t, err)
	}
	if newcomer.Ping(t.Context()) != nil {
		t.Error("the newcomer was ended with the older sessions")
	}
}

// The first installation has no session to end: a guard may be added to a database that is in use.
func TestAFirstInstallationEndsNobody(t *testing.T) {
	t.Parallel()
	d := bare(t)
	stranger := d.connect(t, "app")
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	r := &realm{database: d, s: d.open(t, Options{})}
	_, err := r.opens(t, marks.Unverified{Name: "zk:a"}, claimed(5))
	must.Succeed(t, err)
	execute(t, stranger, "select")
}

// A copy within the same server differs from the original only in the database's OID.
func TestACopyOfTheDatabaseConfirmsNothing(t *testing.T) {
	t.Parallel()
	r := led(t)
	r.lead(t, claimed(5))
	r.s.Close() // a template must have no connections
	name := r.name + "_copy"
	other := database{r.pg, "postgres"}
	other.list(t,
		"select pg_terminate_backend(pid)::text from pg_stat_activity where datname = $1", r.name)
	other.until(t, "select (count(*) = 0)::text from pg_stat_activity where datname = $1", r.name)
	other.sql(t, "create database "+name+" template "+r.name)
	t.Cleanup(func() { other.sql(t, "drop database "+name+" with (force)") })
	c := &realm{database: database{r.pg, name}}
	c.s = c.open(t, Options{})
	found, err := c.s.Marks(t.Context())
	if err != nil || len(found) != 1 || found[0].Confirmed || found[0].Continued {
		t.Errorf("marks of the copy: %+v, %v", found, err)
	}
	c.outside(t, claimed(5), fence.ErrNotRaised)
}

// Maintenance rewrites and freezes rows, but they stay original.
func TestMaintenanceLeavesAMarkConfirmed(t *testing.T) {
	t.Parallel()
	r := led(t)
	c := r.lead(t, claimed(5))
	for _, work := range []string{"vacuum (full, freeze)", "vacuum (freeze)", "vacuum (full)",
		"reindex table", "analyze"} {
		for _, table := range []string{"mark", "gate", "installation", "session", "entered"} {
			r.sql(t, work+" ringfence_private."+table)
		}
	}
	found, err := r.s.Marks(t.Context())
	if err != nil || !found[0].Confirmed {
		t.Errorf("marks: %+v, %v", found, err)
	}
	r.enters(t, c, pgx.TxOptions{})
	if _, step := r.admitted(t, c); step != marks.Admitted {
		t.Errorf("step %v", step)
	}
}

// After an ordinary restart no operator is needed, with or without a coordinator.
func TestAfterARestartTheLeaderIsAdmittedAgainWithoutAnOperator(t *testing.T) {
	t.Parallel()
	r, _ := own(t)
	c := r.lead(t, claimed(5))
	for _, a := range []marks.Authority{marks.Unverified{Name: "zk:a"}, leader(5)} {
		r.stopped(t, func() {})
		r.s = r.open(t, Options{})
		r.outside(t, c, fence.ErrNotRaised)
		stranger := r.connect(t, "app")
		if _, err := r.opens(t, a, claimed(4)); !errors.Is(err, fence.ErrStale) {
			t.Errorf("an older token: %v", err)
		}
		_, err := r.opens(t, a, c)
		must.Succeed(t, err)
		r.enters(t, c, pgx.TxOptions{})
		// the restart has ended every admitted session, so no other is ended
		execute(t, stranger, "select")
	}
}

// A program without a guard raises the mark itself when the server says that the mark is from
// another run.
func TestAfterARestartATransactionRaisesItsMarkByItself(t *testing.T) {
	t.Parallel()
	r, _ := own(t)
	r.lead(t, claimed(5))
	r.stopped(t, func() {})
	begin := func(ctx context.Context) error {
		tx, err := Begin(ctx, r.connect(t, "app"), claimed(5), pgx.TxOptions{})
		if err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	deposed := Raiser{URL: r.url(guardRole), Authority: leader(7)}
	err := claimed(5).RetryRaised(t.Context(), deposed, begin)
	if !errors.Is(err, fence.ErrNotLeader) {
		t.Errorf("a deposed leader: %v", err)
	}
	leads := Raiser{URL: r.url(guardRole), Authority: leader(5)}
	must.Succeed(t, claimed(5).RetryRaised(t.Context(), leads, begin))
}

// A guard's own connections and the client's go to two databases of one server. The marks of one
// database do not fence the other.
func TestASessionOfAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	shop, crm := led(t), led(t)
	conn := crm.connect(t, "app")
	s, err := identify(t.Context(), conn)
	must.Succeed(t, err)
	shop.lead(t, claimed(5))
	_, err = shop.s.Register(t.Context(), s, []fence.Claim{claimed(5)})
	var setup *fence.SetupError
	if !errors.As(err, &setup) {
		t.Errorf("got %v", err)
	}
	if n := shop.list(t, "select count(*)::text from ringfence_private.session")[0]; n != "0" {
		t.Errorf("%s sessions are recorded", n)
	}
}

// A stopped backend does not react to pg_terminate_backend.
func TestARefusalNamesTheSessionThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	r := led(t)
	old := r.lead(t, claimed(5))
	conn, _ := r.admitted(t, old)
	execute(t, conn, "set application_name = 'billing'")
	pid := conn.PgConn().PID()
	stop(t, int(pid))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := (&marks.Admission{Store: r.s, Authority: leader(7)}).Raise(ctx, claimed(7))
	var refused *fence.Refusal
	if !errors.As(err, &refused) || refused.Reason != fence.ErrUnrevoked {
		t.Fatalf("got %v", err)
	}
	for _, says := range []string{"role app", "(billing)", "from 127.0.0.1",
		"pg_terminate_backend"} {
		if !contains(refused.Detail, says) {
			t.Errorf("the detail does not say %q: %s", says, refused.Detail)
		}
	}
}
