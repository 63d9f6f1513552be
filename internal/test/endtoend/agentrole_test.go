package endtoend

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/leader/agent"
)

// LEADER_STORES names the database itself, with the role of the programs. Only a guard's role raises marks there.
func TestAnAgentThatMayNotRaiseSaysWhoActs(t *testing.T) {
	s := newStackWith(t, "")
	g := s.guard()
	a := s.agent(g, "LEADER_STORES="+s.pg.URL("app", "postgres"))
	e := s.stands(a.client, "one").until(agent.Lost)
	if e.Cause != agent.Refused || !e.Final {
		t.Errorf("%+v", e)
	}
	for _, part := range []string{"the role app may not raise marks", "URL of a guard", "GUARD_POSTGRES_UPSTREAM"} {
		if !strings.Contains(e.Error, part) {
			t.Errorf("no %q in %s", part, e.Error)
		}
	}
	if strings.Contains(e.Error, "GUARD_POSTGRES_LEADERS") {
		t.Errorf("advises what does not help: %s", e.Error)
	}
}
