package seal

import (
	"fmt"
	"testing"

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
