package evidence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	elections "github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/system"
)

// changes are the ways in which the product, or an operator, changes the tables of the fence.
var changes = []struct {
	name string
	make func(*fenced)
}{
	{"a first leader", func(f *fenced) { f.admit("stock", 5) }},
	{"a newer leader, whose guard ends the older session", func(f *fenced) { f.admit("stock", 7) }},
	{"a session that records itself", func(f *fenced) {
		attached, err := pgmarks.Attach(f.t.Context(), f.connect(), claim("stock", 7))
		if err != nil || !attached {
			f.t.Fatalf("attach: %v, %v", attached, err)
		}
	}},
	{"a session that has ended, and a sweep", func(f *fenced) {
		f.end(f.admit("parcels", 3))
		f.sql("select ringfence.sweep()")
	}},
	{"a coordinator that was rolled back", func(f *fenced) {
		f.sql("select ringfence.distrust('parcels')")
	}},
	{"an adoption", func(f *fenced) {
		_, err := f.store.Adopt(f.t.Context(), claim("parcels", 1), "operator")
		must.Succeed(f.t, err)
	}},
	{"a program in SQL", func(f *fenced) {
		must.Succeed(f.t, elections.Install(f.t.Context(), f.pg.URL("postgres", "postgres")))
		f.sql("select ringfence.campaign('shelf', 'app-1')")
	}},
	{"a restart of the server", func(f *fenced) {
		must.Succeed(f.t, f.pg.Stop())
		must.Succeed(f.t, f.pg.Start(f.t.Context()))
		f.admit("stock", 7)
	}},
	{"marks that were restored", func(f *fenced) {
		for _, table := range []string{"installation", "mark", "gate"} {
			f.sql(fmt.Sprintf("create temporary table saved as table ringfence_private.%[1]s; "+
				"delete from ringfence_private.%[1]s; insert into ringfence_private.%[1]s table saved", table))
		}
	}},
	{"an installation that lists everybody", (*fenced).install},
	{"a leader of the restored mark", func(f *fenced) { f.admit("stock", 8) }},
	{"an installation over the present one", (*fenced).install},
	{"the schema is dropped and installed again", (*fenced).reinstall},
	{"a leader afterwards", func(f *fenced) { f.admit("stock", 9) }},
}

func TestTheStepsGiveTheStateOfTheTables(t *testing.T) {
	f := newFenced(t)
	for _, c := range changes {
		c.make(f)
		recorded, held := f.recorded(), f.held()
		for try := 1; try < 5 && !maps.Equal(recorded, held); try++ { // a sweep came in between
			recorded, held = f.recorded(), f.held()
		}
		if !maps.Equal(recorded, held) {
			t.Fatalf("%s: the steps give\n%s\nand the tables hold\n%s", c.name, lines(recorded), lines(held))
		}
	}
}

func TestWithoutATriggerTheStepsDoNotGiveTheState(t *testing.T) {
	f := newFenced(t)
	for _, table := range []string{"session", "mark", "gate", "installation"} {
		f.reinstall()
		f.sql("drop trigger lab on ringfence_private." + table)
		if f.admit("stock", 5); table == "installation" {
			f.sql("update ringfence_private.installation set registry = ''")
		}
		if maps.Equal(f.recorded(), f.held()) {
			t.Errorf("nothing is missing without the trigger on %s", table)
		}
	}
}

func TestStepsAreInTheOrderOfCommits(t *testing.T) {
	f := newFenced(t)
	f.admit("stock", 5)
	raise := func(c *pgx.Conn, r string) {
		_, err := c.Exec(t.Context(), "begin")
		must.Succeed(t, err)
		if _, err := c.Exec(t.Context(),
			"select ringfence.raise($1, 1, 'zk:a', 'host', '', (ringfence.look($1)).basis)", r); err != nil {
			t.Fatal(err)
		}
	}
	first, second := f.superuser(), f.superuser()
	raise(first, "parcels")
	raise(second, "shelf")
	for _, c := range []*pgx.Conn{second, first} {
		_, err := c.Exec(t.Context(), "commit")
		must.Succeed(t, err)
	}
	var order []fence.Resource
	for _, e := range f.steps() {
		if e.Do == history.Raise {
			order = append(order, e.Resource)
		}
	}
	if got := fmt.Sprint(order); got != "[stock shelf parcels]" {
		t.Errorf("the raises come in the order %s", got)
	}
}

// fenced is a Postgres that records the steps of the fence, as that of a run does.
type fenced struct {
	t     *testing.T
	pg    *servers.Postgres
	store *pgmarks.Store
}

func newFenced(t *testing.T) *fenced {
	pg := serverstest.Postgres(t,
		servers.PostgresOptions{Settings: map[string]string{"wal_keep_size": "1GB"}})
	f := &fenced{t: t, pg: pg}
	f.sql("create role guard_role login; create role app login")
	f.sql(system.Tables)
	f.install()
	f.sql(recordSteps)
	var err error
	if f.store, err = pgmarks.Open(pg.URL("guard_role", "postgres"), pgmarks.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.store.Close)
	return f
}

func (f *fenced) install() {
	f.t.Helper()
	if err := pgmarks.Install(f.t.Context(), f.pg.URL("postgres", "postgres"), "guard_role",
		"app"); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fenced) reinstall() {
	f.t.Helper()
	f.sql("drop schema ringfence, ringfence_private cascade")
	f.install()
}

// sql runs transactions as the superuser.
func (f *fenced) sql(transactions ...string) {
	f.t.Helper()
	if err := system.Exec(f.t.Context(), f.pg.URL("postgres", "postgres"),
		transactions...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fenced) superuser() *pgx.Conn { f.t.Helper(); return f.as("postgres") }

func (f *fenced) connect() *pgx.Conn { f.t.Helper(); return f.as("app") }

func (f *fenced) as(user string) *pgx.Conn {
	f.t.Helper()
	return pgtest.Connect(f.t, f.pg.URL(user, "postgres"))
}

// elected is the authority of who has just won, also where the mark may have been lost.
type elected struct{ marks.Unverified }

func (e elected) Confirm(ctx context.Context, c fence.Claim, m marks.Mark) (fence.Claim, error) {
	m.Confirmed = true
	return e.Unverified.Confirm(ctx, c, m)
}

func claim(r fence.Resource, token fence.Token) fence.Claim {
	return fence.Claim{Resource: r, Token: token, Issuer: elector.Unverified, Holder: "host"}
}

// admit admits a new session, as a guard does.
func (f *fenced) admit(r fence.Resource, token fence.Token) *pgx.Conn {
	f.t.Helper()
	c := f.connect()
	var answer string
	must.Succeed(f.t, c.QueryRow(f.t.Context(), pgmarks.IdentityQuery).Scan(&answer))
	session, err := pgmarks.ParseIdentity(answer)
	must.Succeed(f.t, err)
	a := &marks.Admission{Store: f.store, Authority: elected{}, Timeout: time.Minute}
	must.Succeed(f.t, a.Admit(f.t.Context(), session.SessionID, marks.Present(claim(r, token))))
	return c
}

// end ends a session, and waits until the server has lost it.
func (f *fenced) end(c *pgx.Conn) {
	f.t.Helper()
	f.sql(servers.EndSessions(fmt.Sprintf("pid = %d", c.PgConn().PID())))
}

// steps returns the steps in the order of commits.
func (f *fenced) steps() (all []history.Event) {
	f.t.Helper()
	f.sql("select pg_logical_emit_message(true, 'lab', 'flushes what was committed asynchronously')")
	p := postgres{f.superuser(), map[string]int64{}}
	must.Succeed(f.t, p.readLog(f.t.Context()))
	must.Succeed(f.t, p.steps(f.t.Context(), func(e history.Event) { all = append(all, e) }))
	slices.SortStableFunc(all, func(a, b history.Event) int { return int(a.Place - b.Place) })
	return all
}

// recorded returns the state of the tables, as the steps give it.
func (f *fenced) recorded() map[string]string {
	f.t.Helper()
	state := map[string]string{}
	for _, e := range f.steps() {
		row := fmt.Sprintf("%s %s %s %t", e.Token, e.Issuer, e.Start, e.Copied)
		session := fmt.Sprintf("session %s %s", e.Resource, e.Backend)
		switch e.Do {
		case history.Raise:
			state[fmt.Sprintf("mark %s", e.Resource)] = fmt.Sprintf("%s %s %t", e.Token, e.Issuer, e.Copied)
		case history.Open:
			state[fmt.Sprintf("gate %s", e.Resource)] = row
		case history.Shut:
			delete(state, fmt.Sprintf("gate %s", e.Resource))
		case history.Register, history.Attach:
			state[session] = fmt.Sprintf("%s %s", e.Token, e.Issuer)
		case history.Forget:
			delete(state, session)
		case history.Complete, history.Incomplete:
			if delete(state, "registry"); e.Do == history.Complete && !e.Copied {
				state["registry"] = "complete"
			}
		case history.Empty:
			clear(state)
		}
	}
	return state
}

// held returns what the tables hold. Gates that are shut are left out.
func (f *fenced) held() map[string]string {
	f.t.Helper()
	rows, err := f.superuser().Query(f.t.Context(), `
		select 'mark ' || resource, concat_ws(' ', token, issuer, (written is distinct from xmin)::text) from ringfence_private.mark
		union all
		select 'gate ' || resource, concat_ws(' ', token, issuer,
			ringfence.server() || '/' || (extract(epoch from started) * 1000000)::bigint, (written is distinct from xmin)::text) from ringfence_private.gate where open
		union all
		select concat_ws(' ', 'session', resource, lab_backend(pid, backend_start)), concat(token, ' ', issuer) from ringfence_private.session
		union all
		select 'registry', 'complete' from ringfence_private.installation where ringfence.complete()`)
	must.Succeed(f.t, err)
	state := map[string]string{}
	var key, value string
	if _, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		state[key] = value
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return state
}

func lines(state map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(state)) {
		fmt.Fprintf(&b, "\t%s: %s\n", key, state[key])
	}
	return b.String()
}
