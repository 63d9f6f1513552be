package worker

import (
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// command runs the worker as the child of leader run.
func (s *stage) command(child string) *run {
	c := s.config("worker-1")
	c.Kind, c.Child = scenario.Commands, child
	cmd := s.program("leader", "run", scenario.Resource, "--", filepath.Join(programs, "worker"))
	cmd.Env = append(cmd.Env, environment(c)...)
	if child != IgnoreTerm { // it has time to report its end
		cmd.Env = append(cmd.Env, "LEADER_SESSION_TIMEOUT=30s", "LEADER_GRACE=6s")
	}
	return s.launch(cmd)
}

func TestACommandKeepsBothLedgersUntilItsTermIsLost(t *testing.T) {
	for _, child := range []string{"", IgnoreTerm, Fork} {
		t.Run(child, func(t *testing.T) {
			s := newStage(t)
			a := s.command(child)
			token := a.leads(1)
			a.writes(10)
			b := s.start(s.config("worker-2"))
			s.stands(2)
			s.depose(token)
			b.writes(10)
			if code := a.wait(); code != 117 {
				t.Errorf("leader run: exit code %d", code)
			}
			b.stop()
			found := s.evidence()
			s.judge(a, found)
			for store, all := range found {
				if late := behind(all); len(late) > 0 {
					t.Errorf("%s: %v", store, late)
				}
			}
			// The fork's child is killed with the group, and may not report its end. A child that
			// ignores TERM is refused, or killed.
			left, stale := len(a.terms(history.Left)), len(a.returns("postgres", history.Stale))
			if child == "" && left != 1 || child == IgnoreTerm && left == 1 && stale == 0 {
				t.Errorf("it left %d times, and was refused %d times", left, stale)
			}
		})
	}
}

func TestARefusedCommandEnds(t *testing.T) {
	s := newStage(t)
	c := s.config("worker-1")
	c.Kind, c.Token = scenario.Commands, 1
	b := s.start(s.config("worker-2"))
	b.writes(1)
	a := s.start(c)
	if code := a.wait(); code != ExitDeposed {
		t.Errorf("exit code %d", code)
	}
	for _, store := range []string{"postgres", "redis"} {
		if n := len(a.returns(store, history.Stale)); n != refusals {
			t.Errorf("%s has refused %d times", store, n)
		}
	}
	b.stop()
}
