package endtoend

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
	"github.com/ringfence/ringfence/internal/test/must"
)

// Two agents, of which the first one has the term and is frozen until the second one has it.
func TestAnAgentThatWakesDoesNotSayThatItsTermIsAlive(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	g := s.guard()
	const session = "LEADER_SESSION_TIMEOUT=3s"
	frozen, next := s.agent(g, session), s.agent(g, session)
	first := s.stands(frozen.client, "first")
	first.until(agent.Alive)
	second := s.stands(next.client, "second")
	s.signal(frozen, syscall.SIGSTOP)
	second.until(agent.Leading)
	s.signal(frozen, syscall.SIGCONT)
	var last agent.Event
	for first.lines.Scan() {
		last = agent.Event{}
		must.Succeed(t, json.Unmarshal(first.lines.Bytes(), &last))
		if last.Event != agent.Lost && last.Left <= 0 {
			t.Errorf("told of a term that is over: %s", first.lines.Bytes())
		}
	}
	if last.Event != agent.Lost || last.Cause != agent.Expired {
		t.Errorf("the last event is %+v", last)
	}
}

func (s *stack) signal(a *agentProcess, what syscall.Signal) {
	s.t.Helper()
	must.Succeed(s.t, a.cmd.Process.Signal(what))
}
