package endtoend

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
)

// LEADER_STORES names the database itself, with a role that is not among those that may lead.
func TestAnAgentThatMayNotRaiseSaysWhoActs(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	g := s.guard()
	a := s.agent(g, "LEADER_STORES="+s.pg.URL("stranger", "postgres"))
	e := s.stands(a.client, "one").until(agent.Lost)
	if e.Cause != agent.Refused || !e.Final {
		t.Errorf("%+v", e)
	}
	for _, part := range []string{"the role stranger may not lead in this database", "meant to be a " +
		"guard", "GUARD_POSTGRES_LEADERS"} {
		if !strings.Contains(e.Error, part) {
			t.Errorf("no %q in %s", part, e.Error)
		}
	}
}
