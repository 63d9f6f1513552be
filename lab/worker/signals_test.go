package worker

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

func isInside(e history.Event) bool {
	return e.Kind == history.Fault && e.Fault == history.Inside
}

func TestAnOpenTransactionIsNotCommittedOnceANewerLeaderIsReady(t *testing.T) {
	for _, route := range []scenario.Route{scenario.Guarded, scenario.Direct} {
		t.Run(string(route), func(t *testing.T) {
			s := newStage(t)
			one, two := s.config("worker-1"), s.config("worker-2")
			if route == scenario.Direct {
				one, two = s.direct(one, route), s.direct(two, route)
			}
			a := s.process(one)
			inside, b := s.supplant(a, two)
			s.must(a.cmd.Process.Signal(syscall.SIGUSR2))
			s.await("it has left", func() bool { return len(a.terms(history.Left)) == 1 })
			if code := a.stop(); code != ExitDone {
				t.Errorf("exit code %d", code)
			}
			b.stop()
			found := s.evidence()
			s.judge(a, found)
			committed := slices.Contains(found["postgres"], entryOf{inside.Op, inside.Token})
			late, unfenced := behind(found["postgres"]), route == scenario.Direct
			if committed != unfenced || (len(late) > 0) != unfenced {
				t.Errorf("was the open transaction committed: %t; late are %v", committed, late)
			}
			// RF001 came instead of the answer to COMMIT, which does not tell the outcome.
			answers := a.events(func(e history.Event) bool {
				return e.Kind == history.Return && e.Op == inside.Op
			})
			if route == scenario.Guarded && (len(answers) != 1 ||
				answers[0].Outcome != history.Unknown ||
				!strings.HasPrefix(answers[0].Text, "RF001")) {
				t.Errorf("the answers are %+v", answers)
			}
		})
	}
}

// supplant stops a leader inside a transaction, and makes another one lead and write. It returns
// the Invoke of that transaction.
func (s *stage) supplant(a *run, next Config) (inside history.Event, b *run) {
	s.t.Helper()
	token := a.leads(1)
	a.writes(5)
	s.must(a.cmd.Process.Signal(syscall.SIGUSR1))
	s.await("it is stopped inside", func() bool { return len(a.events(isInside)) == 1 })
	open := a.events(isWritePG)
	inside = open[len(open)-1]
	if inside.Kind != history.Invoke {
		s.t.Fatalf("the last event of Postgres is %+v", inside)
	}
	b = s.start(next)
	s.stands(2)
	s.depose(token)
	if next.Route == scenario.Guarded {
		b.writes(2 * lockEvery) // also the row that the open transaction had locked
	} else {
		b.writes(1)
	}
	return inside, b
}

func TestAStoppedTransactionContinues(t *testing.T) {
	s := newStage(t)
	a := s.start(s.config("worker-1"))
	a.writes(5)
	a.w.signals.stopInside()
	s.await("it is stopped inside", func() bool { return len(a.events(isInside)) == 1 })
	a.w.signals.resume()
	a.writes(5)
	a.stop()
	s.judge(a, s.evidence())
	if all, ok := a.events(isWritePG), a.returns("postgres", history.OK); len(all) != 2*len(ok) {
		t.Errorf("%d of %d were acknowledged", len(ok), len(all)/2)
	}
}

func isWritePG(e history.Event) bool { return e.Store == "postgres" && e.Do == history.Write }

func TestALeaderWithoutAnswersResigns(t *testing.T) {
	s := newStage(t)
	c := s.config("worker-1")
	c.Health, c.Deadline = 3*time.Second, time.Second
	a := s.start(c)
	a.writes(5)
	s.must(s.guard.Process.Signal(syscall.SIGSTOP))
	s.await("it resigns", func() bool {
		return len(a.events(func(e history.Event) bool {
			return e.Kind == history.Note && strings.HasPrefix(e.Text, "resigns")
		})) > 0
	})
	s.must(s.guard.Process.Signal(syscall.SIGCONT))
	a.leads(2)
	a.writes(5)
	a.stop()
	s.judge(a, s.evidence())
	if len(a.terms(history.Lost)) > 0 {
		t.Error("a term that it gave up is recorded as lost")
	}
}

func TestAPoolThatKeepsTheFirstTokenIsRefused(t *testing.T) {
	s := newStage(t)
	c := s.config("worker-1")
	c.Flaw = flaw.FirstToken
	a := s.start(c)
	token := a.leads(1)
	a.writes(5)
	s.depose(token)
	second := a.leads(2)
	s.await("it is refused", func() bool {
		for _, e := range a.returns("postgres", history.Stale) {
			if e.Token == second {
				return true
			}
		}
		return false
	})
	a.stop()
	for _, e := range append(a.returns("postgres", history.OK), a.returns("redis", history.OK)...) {
		if e.Token != token {
			t.Errorf("under the second token: %+v", e)
		}
	}
}
