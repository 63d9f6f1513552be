package tasks

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/internal/test/leadertest"
)

// inDatabase returns a bench with a database as the journal.
func inDatabase(t *testing.T, steps string) (*bench, leadertest.Database) {
	t.Helper()
	b := newBench(t, steps)
	d := leadertest.NewDatabase(t)
	d.SQL("create table effect (n serial, what text)")
	d.Grant()
	b.stores = stores.All
	b.env = append(b.env, "LEADER_STORES="+d.URL("warden"), "LEADER_JOURNAL="+d.URL("keeper"))
	return b, d
}

// stopped runs a task that a step stops, and returns its checkpoint.
func stopped(t *testing.T, b *bench) checkpoint.Failure {
	t.Helper()
	cp := b.shown()
	if cp.Status != checkpoint.Stopped {
		t.Fatalf("got %+v", cp)
	}
	return *cp.Failure
}

func TestSQLReadsTheStateAndReturnsTheNextOne(t *testing.T) {
	b, d := inDatabase(t, `
state: {n: 1, who: "d'Artagnan \\ Ünal"}
steps:
  - name: one
    sql: |
      insert into effect (what) select s->>'who' from (select current_setting('ringfence_task.state')::jsonb as s) as now;
      insert into effect (what) select current_setting('ringfence_task.name') || ' ' || current_setting('ringfence_task.key');
      select current_setting('ringfence_task.state')::jsonb || '{"n": 2}' as state
  - name: two
    sql: select 5 as n, 6 as state   -- two columns are no new state
  - name: three
    sql: |
      select '{"n": 9}'::jsonb as state;
      update effect set what = what
  - name: shell
    run: cat
`)
	l := b.run()
	l.exits(cli.Done)
	got, want := d.Query("select string_agg(what, '|' order by n) from effect"),
		`d'Artagnan \ Ünal|t t/1/1/one`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := l.out.String(); !strings.Contains(got, `"n":2`) || !strings.Contains(got, "Ünal") {
		t.Errorf("the state is %s", got)
	}
}

func TestFailingSQLIsRolledBackAndItsLineReported(t *testing.T) {
	b, d := inDatabase(t, "")
	for sql, want := range map[string]string{
		"insert into effect (what) values ('x');\n      select nothing from nowhere;": `t.yaml:8: ERROR: relation "nowhere" does not exist (SQLSTATE 42P01)`,
		"insert into effect (what) values ('ü');\n      selct 1;":                     `t.yaml:8: ERROR: syntax error at or near "selct"`,
		"insert into effect (what) values ('x'); select 1/0 from effect": "t.yaml:5:5: " +
			"ERROR: division by zero",
		"insert into effect (what) values ('x'); select '[1]'::jsonb as state": "the new state " +
			"is not a JSON object",
		"insert into effect (what) values ('x'); select null::jsonb as state": "the new state " +
			"is not a JSON object",
		"insert into effect (what) select 'x' returning null as state; select '{}'::jsonb as state " +
			"from generate_series(1, 3)": "and several rows",
		"insert into effect (what) values ('x'); select '{}'::jsonb as state where false": "and no row",
		"insert into effect (what) values ('x'); do $$ begin commit; end $$": "invalid " +
			"transaction termination",
		"insert into effect (what) values ('x'); do $$ begin raise exception 'no' using hint = 'fix " +
			"it'; end $$": "ERROR: no (SQLSTATE P0001); fix it",
	} {
		b.steps("\nsteps:\n  - name: s\n    sql: |\n      " + sql + "\n")
		b.run().exits(cli.Error)
		if f := stopped(t, b); !strings.Contains(f.Message, want) {
			t.Errorf("%s: got %q, want %q", sql, f.Message, want)
		}
		if n := d.Query("select count(*)::text from effect"); n != "0" {
			t.Errorf("%s: %s rows are left", sql, n)
		}
		b.say(cli.Done, "task", "restart", "t")
	}
}

func TestSQLThatTimesOutIsAlsoEndedAtTheServer(t *testing.T) {
	b, d := inDatabase(t, "steps: [{name: s, timeout: 300ms, sql: 'select pg_sleep(1000)'}]\n")
	b.run().exits(cli.Error)
	if f := stopped(t, b); !strings.Contains(f.Message, "timeout") {
		t.Errorf("got %q", f.Message)
	}
	leadertest.Eventually(t, "the statement has ended", func() bool {
		return d.Query("select count(*)::text from pg_stat_activity where datname = "+
			"current_database() and state = 'active' and query like '%pg_sleep(1000)%' and pid <> "+
			"pg_backend_pid()") == "0"
	})
}

// A step must not depend on its predecessor's session, which the next leader would not have.
func TestStepsShareNoSessionState(t *testing.T) {
	b, d := inDatabase(t, `
rounds: 4
steps:
  - name: litter
    sql: |
      insert into effect (what) select current_setting('search_path') || current_setting('my.own', true) || to_regclass('pg_temp.litter')::text;
      set search_path = nowhere; create temp table litter (); select set_config('my.own', 'x', false); select pg_advisory_lock(7)
  - name: look
    sql: |
      insert into public.effect (what) select current_setting('search_path') || coalesce(current_setting('my.own', true), '') || coalesce(to_regclass('pg_temp.litter')::text, '')
`)
	b.run().exits(cli.Done)
	if got := d.Query("select string_agg(distinct what, '|') from effect"); got != `"$user", public` {
		t.Errorf("the next step found %s", got)
	}
}

func TestCopyToStdoutDoesNotHang(t *testing.T) {
	b, _ := inDatabase(t,
		"steps: [{name: s, sql: 'copy (select generate_series(1, 100000)) to stdout'}]\n")
	b.run().exits(cli.Done)
}

func TestNoticesOfPostgresAreLogged(t *testing.T) {
	b, _ := inDatabase(t, "steps: [{name: s, sql: \"do $$ begin raise notice 'half way'; end $$\"}]\n")
	l := b.run()
	l.exits(cli.Done)
	if !strings.Contains(l.log.String(), "half way") {
		t.Error("the log has no notice")
	}
}

// The journal retries serialization failures, even for a step with one attempt.
func TestASerializationFailureDoesNotCountAsAnAttempt(t *testing.T) {
	b, d := inDatabase(t,
		"steps: [{name: s, sql: \"select nextval('tries'); do $$ begin if currval('tries') < 3 then "+
			"raise exception using errcode = '40001'; end if; end $$\"}]\n")
	d.SQL("create sequence tries")
	d.Grant()
	b.run().exits(cli.Done)
	if got := d.Query("select last_value::text from tries"); got != "3" {
		t.Errorf("it ran %s times", got)
	}
}

func TestAJournalThatIsNotInstalledIsReportedWithTheRemedy(t *testing.T) {
	b := newBench(t, "steps: [{name: s, run: 'echo never'}]\n")
	b.stores = stores.All
	d := leadertest.BareDatabase(t)
	b.env = append(b.env, "LEADER_JOURNAL="+d.URL("keeper"))
	want := func(l *taskCopy) {
		t.Helper()
		if !strings.Contains(l.log.String(), "guard install") ||
			!strings.Contains(l.log.String(), "GUARD_POSTGRES_LEADERS") || l.out.String() != "" {
			t.Errorf("stdout %q, stderr %s", l.out, l.log)
		}
	}
	want(b.say(cli.Error, "task", b.file))
	want(b.say(cli.Error, "task", "show", b.file))
	want(b.say(cli.Error, "task", "list"))
	want(b.say(cli.Error, "task", "resume", b.file))
	leadertest.Install(t, d, "warden") // keeper is not among the leaders
	want(b.say(cli.Error, "task", b.file))
	want(b.say(cli.Error, "task", "list"))
}

// If no store of the settings raises the mark in the journal's database, the journal's role has to.
func TestTheJournalsRoleRaisesTheMarkIfNoStoreDoes(t *testing.T) {
	b, d := inDatabase(t, "steps: [{name: s, sql: \"insert into effect (what) values ('x')\"}]\n")
	b.env = environ.With(b.env, [][2]string{
		{"LEADER_STORES", ""}, {"LEADER_JOURNAL", d.URL("keeper")},
	})
	b.run().exits(cli.Done)
	if n := d.Query("select count(*)::text from effect"); n != "1" {
		t.Errorf("%s rows", n)
	}
}

// The database has failed over in the middle of the term, so the mark counts as lost. The journal's
// role must not raise it; the store's role may.
func TestTheStoresRaiseALostMarkAgain(t *testing.T) {
	b, d := inDatabase(t,
		"steps: [{name: wait, run: 'echo began; while [ ! -e go ]; do sleep 0.02; done'}, {name: s, "+
			"sql: \"insert into effect (what) values ('x')\"}]\n")
	l := b.run()
	l.out.Await(t, "began")
	d.SQL("update ringfence_private.gate set place = 'another'")
	b.touch("go")
	l.exits(cli.Done)
	if cp := b.shown(); cp.Token != 1 || d.Query("select count(*)::text from effect") != "1" {
		t.Errorf("got %+v", cp)
	}
}
