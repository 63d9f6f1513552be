package pgmarks

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/test/must"
)

// tasked returns a realm under token 5, where the application's role may write checkpoints.
func tasked(t *testing.T) *realm {
	t.Helper()
	d := led(t)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole, "app"))
	c := claimed(5)
	d.lead(t, c)
	c.Resource = "stock"
	d.lead(t, c)
	d.token = 5
	return d
}

// run runs a script as the application, and rolls back a transaction that it leaves open.
func (d database) run(t *testing.T, script string) error {
	t.Helper()
	c := d.connect(t, "app")
	_, err := c.PgConn().Exec(t.Context(), script).ReadAll()
	execute(t, c, "rollback")
	return err
}

func TestACheckpointIsPublishedOnlyInATransactionThatHasEntered(t *testing.T) {
	t.Parallel()
	const enter = "select ringfence.enter('orders', 5, 'zk:a'); "
	const publish = "select ringfence.publish('orders', 5, 'zk:a', 'nightly', 1, '{}')"
	d := tasked(t)
	for script, want := range map[string]string{
		publish:             "2D000",
		"begin; " + publish: "2D000",
		"begin; " + enter + "commit; begin; " + publish:                 "2D000",
		"begin; " + enter + "commit and chain; " + publish:              "2D000",
		"begin; " + enter + "rollback and chain; " + publish:            "2D000",
		"begin; savepoint a; " + enter + "rollback to a; " + publish:    "2D000",
		"begin; select ringfence.enter('stock', 5, 'zk:a'); " + publish: "2D000",
		"begin; " + enter + strings.Replace(publish, "5", "6", 1):       "2D000",
		"begin; " + enter + strings.Replace(publish, "zk:a", "zk:b", 1): "2D000",
		"do $$ begin perform ringfence.enter('orders', 5, 'zk:a'); commit; " +
			"perform ringfence.publish('orders', 5, 'zk:a', 'nightly', 1, '{}'); end $$": "2D000",

		"begin; " + enter + publish:                                                  "",
		"begin; " + enter + "savepoint a; rollback to a; " + publish:                 "",
		"begin; savepoint a; " + enter + "release a; " + publish:                     "",
		"begin; " + enter + "select ringfence.enter('stock', 5, 'zk:a'); " + publish: "",
	} {
		if err := d.run(t, script); sqlstate(err) != want || (want == "") != (err == nil) {
			t.Errorf("%s\ngot %v, want %q", script, err, want)
		}
	}
	if n := d.list(t, "select count(*)::text from ringfence_private.checkpoint")[0]; n != "0" {
		t.Errorf("%s checkpoints were stored", n)
	}
}

func TestACheckpointFollowsTheVersionBeforeItAndKeepsItsResource(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	for _, step := range []struct{ call, want string }{
		{"'orders', 5, 'zk:a', 'nightly', 2, '{}'", "RF008"}, // there is none
		{"'orders', 5, 'zk:a', 'nightly', 1, '{}'", ""},
		{"'orders', 5, 'zk:a', 'nightly', 1, '{}'", "RF008"},
		{"'orders', 5, 'zk:a', 'nightly', 3, '{}'", "RF008"},
		{"'stock', 5, 'zk:a', 'nightly', 2, '{}'", "RF009"},
		{"'stock', 5, 'zk:a', 'nightly', 1, '{}'", "RF009"},
		{"'orders', 4, 'zk:a', 'nightly', 2, '{}'", "RF001"},
		{"'orders', 6, 'zk:a', 'nightly', 2, '{}'", "RF012"},
		{"'orders', 5, 'zk:b', 'nightly', 2, '{}'", "RF004"},
		{"'orders', 5, 'zk:a', 'nightly', 2, '{}'", ""},
		{"'orders', 5, 'zk:a', 'nightly', 2, '{}'", "RF008"},
	} {
		err := d.run(t, "select ringfence.enter_and_publish("+step.call+")")
		if sqlstate(err) != step.want || (step.want == "") != (err == nil) {
			t.Errorf("%s: got %v, want %q", step.call, err, step.want)
		}
	}
	got := d.list(t, `select task || ' ' || resource || ' ' || version || ' ' || token
	    from ringfence_private.checkpoint`)
	if len(got) != 1 || got[0] != "nightly orders 2 5" {
		t.Errorf("checkpoints: %q", got)
	}
}

func TestACheckpointIsForgottenOnlyUnderTheMarkOfItsResource(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	if err := d.run(t,
		"select ringfence.enter_and_publish('orders', 5, 'zk:a', 'nightly', 1, '{}')"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		call, want string
		left       int
	}{
		{"'stock', 5, 'zk:a', 'nightly'", "RF009", 1},
		{"'orders', 4, 'zk:a', 'nightly'", "RF001", 1},
		{"'orders', 4, 'zk:a', 'unheard-of'", "RF001", 1},
		{"'orders', 6, 'zk:a', 'nightly'", "RF012", 1},
		{"'orders', 5, 'zk:b', 'nightly'", "RF004", 1},
		{"'orders', 5, 'zk:a', 'unheard-of'", "", 1},
		{"'orders', 5, 'zk:a', 'nightly'", "", 0},
		{"'orders', 5, 'zk:a', 'nightly'", "", 0},
	} {
		err := d.run(t, "select ringfence.enter_and_forget("+step.call+")")
		left := d.list(t, "select task from ringfence_private.checkpoint")
		if sqlstate(err) != step.want || (step.want == "") != (err == nil) || len(left) != step.left {
			t.Errorf("%s: got %v, want %q; left are %q", step.call, err, step.want, left)
		}
	}
	d.sql(t, "select ringfence.authorize(true)")
	err := d.run(t, "select ringfence.enter_and_forget('orders', 5, 'zk:a', 'nightly')")
	if sqlstate(err) != "RF010" {
		t.Errorf("a role that is not allowed: %v", err)
	}
	c := d.connect(t, "postgres")
	for _, q := range []string{`create role "o'b x" in role app`,
		`set session authorization "o'b x"`} {
		execute(t, c, q)
	}
	_, err = c.Exec(t.Context(), "select ringfence.enter_and_forget('orders', 5, 'zk:a', 'nightly')")
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok ||
		!strings.HasSuffix(pg.Hint, `run: guard allow 'o'\''b x' orders`) {
		t.Errorf("a name that a shell would take apart: %+v", err)
	}
}

func TestACheckpointIsDurableWhateverTheDefaultsAre(t *testing.T) {
	t.Parallel()
	d := tasked(t)
	c := d.connect(t, "app")
	for setting, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on",
		"on": "on", "remote_apply": "remote_apply"} {
		for _, call := range []string{"enter_and_publish('orders', 5, 'zk:a', 'nightly', 1, '{}')",
			"publish('orders', 5, 'zk:a', 'nightly', 1, '{}')", "enter_and_forget('orders', 5, 'zk:a', " +
				"'nightly')"} {
			execute(t, c, "set synchronous_commit = "+setting)
			execute(t, c, "begin")
			execute(t, c, "select ringfence.enter('orders', 5, 'zk:a')")
			execute(t, c, "select ringfence."+call)
			var got string
			if err := c.QueryRow(t.Context(),
				"select current_setting('synchronous_commit')").Scan(&got); err != nil || got != want {
				t.Errorf("under %s %s commits with %s, want %s: %v", setting, call, got, want, err)
			}
			execute(t, c, "rollback")
		}
	}
}

func TestOnlyLeaderRolesUseCheckpointsAndNoRoleUsesTheTables(t *testing.T) {
	t.Parallel()
	calls := []string{
		"select * from ringfence.resume('orders', 5, 'zk:a', 'nightly', 0)",
		"select * from ringfence.checkpoints(null)",
		"select ringfence.enter_and_publish('orders', 5, 'zk:a', 'nightly', 1, '{}')",
		"select ringfence.enter_and_forget('orders', 5, 'zk:a', 'nightly')",
		"begin; select ringfence.enter('orders', 5, 'zk:a'); " +
			"select ringfence.publish('orders', 5, 'zk:a', 'daily', 1, '{}')",
	}
	d := led(t)
	d.lead(t, claimed(5))
	for _, call := range calls {
		if err := d.run(t, call); sqlstate(err) != "42501" {
			t.Errorf("a role that is not a leader's: %s: %v", call, err)
		}
	}
	d = tasked(t)
	for _, call := range calls {
		if err := d.run(t, call); err != nil {
			t.Errorf("a leader: %s: %v", call, err)
		}
	}
	for _, table := range []string{"mark", "session", "gate", "checkpoint",
		"installation", "adoption"} {
		for _, forbidden := range []string{"select from ringfence_private.", "delete from " +
			"ringfence_private.",
			"lock table ringfence_private."} {
			if err := d.run(t, "begin; "+forbidden+table); sqlstate(err) != "42501" {
				t.Errorf("a leader: %s%s: %v", forbidden, table, err)
			}
		}
	}
	for _, call := range []string{"ringfence.open('orders', 'x')",
		"ringfence.make_gates('{orders}', true)", "ringfence.raise('orders', 9, 'zk:a', 'x', '', " +
			"(select basis from ringfence.look('orders')))"} {
		if err := d.run(t, "select "+call); sqlstate(err) != "42501" {
			t.Errorf("a leader: %s: %v", call, err)
		}
	}
}
