package seal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

func TestCheckFindsWhatDirectSessionsLeaveOpen(t *testing.T) {
	r := newRealm(t)
	if !r.atLeast(17) {
		t.Skip("login triggers need Postgres 17: make test-newer")
	}
	r.sql("create role direct_app login; create role direct_other login; grant insert on entry to " +
		"direct_app, direct_other")
	defer r.sql("select ringfence.direct('{}'); drop owned by direct_app, direct_other; " +
		"drop role direct_app, direct_other")
	r.finds("direct-uncovered:direct_other", false)
	r.sql("select ringfence.direct('{direct_app}', true)")
	r.finds("direct-trial:ringfence_login", true)
	r.sql("select ringfence.direct('{direct_app}')")
	r.finds("direct-trial:ringfence_login", false)
	r.finds("direct-changed:ringfence_login", false)
	r.finds("direct-uncovered:direct_app", false)
	r.finds("direct-uncovered:direct_other", true)
	r.sql("create role direct_second login; select ringfence.direct('{direct_app, direct_second}')")
	r.sql("alter role direct_second rename to direct_third")
	defer r.sql("drop role direct_third")
	number := pgtest.Value[uint32](t, r.pg.URL("postgres", r.name),
		"select oid from pg_roles where rolname = 'direct_third'")
	r.finds(fmt.Sprintf("direct-lost:('direct_second', %d)", number), true)
	r.sql("alter event trigger ringfence_login disable")
	r.finds("direct-changed:ringfence_login", true)
}

// A copy of the database by pg_dump refuses the role until a leader has raised the mark there.
// Where the role has another number, the trigger does not apply to it, and check says so.
func TestADumpOfDirectSessions(t *testing.T) {
	r := newRealm(t)
	if !r.atLeast(17) {
		t.Skip("login triggers need Postgres 17: make test-newer")
	}
	r.sql("create role direct_dumped login; select ringfence.direct('{direct_dumped}')")
	defer r.sql("select ringfence.direct('{}'); drop role direct_dumped")
	other := r.restored()
	defer other.sql("drop event trigger ringfence_login")
	login := func(options, want string) {
		t.Helper()
		cfg, err := pgx.ParseConfig(r.pg.URL("direct_dumped", other.name))
		must.Succeed(t, err)
		cfg.RuntimeParams["options"] = options
		c, err := pgx.ConnectConfig(t.Context(), cfg)
		if err == nil {
			_ = c.Close(t.Context())
		}
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("login with %q: %s, want %s", options, got, want)
		}
	}
	login("", "RF002")
	login("-c fence.orders=5", "RF012")
	other.install(pgmarks.Options{})
	other.lead(5)
	login("-c fence.orders=5", "<nil>")
	login("-c fence.orders=4", "RF001")
	r.sql("drop role direct_dumped; create role direct_dumped login")
	login("", "<nil>")
	other.finds("direct-changed:ringfence_login", true)
}
