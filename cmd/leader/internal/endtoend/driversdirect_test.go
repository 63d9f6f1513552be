package endtoend

import (
	"fmt"
	"net"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// The programs of TestDriversOverTLS connect to Postgres itself, which admits their sessions. A
// session of a deposed leader is ended as an administrator ends one; a login gets the reason.
func TestDriversOfDirectSessions(t *testing.T) {
	t.Parallel()
	e := newEncrypted(t)
	_, e.direct, _ = net.SplitHostPort(e.stack.pg.Addr())
	admin := e.stack.pg.URL("postgres", "postgres")
	if !pgtest.HasLoginTriggers(t, admin) {
		t.Skip("login triggers need Postgres 17: make test-newer")
	}
	const says = "wrote 3\nencrypted %s\ndeposed %s\nrefused %s\n"
	drivers := []driver{
		{"psycopg", e.direct, python(t, "psycopg"), []string{"psycopg_leader.py"},
			fmt.Sprintf(says, "True", "terminating connection", "stale token")},
		{"jdbc", e.direct, jdbc(t), []string{"Jdbc.java"},
			fmt.Sprintf(says, "true", "57P01 null null null null", "RF001")},
		{"node_postgres", e.direct, node(t, "pg"), []string{"pg.js"},
			fmt.Sprintf(says, "true", "57P01 undefined undefined undefined undefined", "RF001")},
	}
	for _, d := range drivers {
		e.raise(t, d.name, 5)
	}
	e.sql("select ringfence.direct('{app}')")
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) { e.run(t, d) })
	}
}

// raise raises the mark of a resource, as the new leader's raiser does.
func (e *encrypted) raise(t *testing.T, resource string, token fence.Token) {
	t.Helper()
	s, err := pgmarks.Open(e.stack.pg.URL("postgres", "postgres"), pgmarks.Options{})
	must.Succeed(t, err)
	defer s.Close()
	a := &marks.Admission{Store: s, Authority: marks.Unverified{}}
	c := fence.Claim{Resource: fence.Resource(resource), Token: token}
	must.Succeed(t, a.Raise(t.Context(), c))
}
