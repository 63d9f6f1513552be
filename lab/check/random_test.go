package check_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// flaws of a simulated guard.
const (
	none       = ""
	admitStale = "admits stale tokens"
	refuseSame = "refuses the current token"
	loseAcked  = "loses acknowledged writes"
)

// simulation is a random execution of leaders, two stores and their guard. Each operation is sent,
// judged and answered at separate times, or never.
type simulation struct {
	*builder
	rnd  *rand.Rand
	flaw string

	last    fence.Token
	workers []*simulated
	marks   map[string]fence.Token
	written map[string]fence.Token // the newest token in each store's evidence
	shown   map[string]fence.Token // the newest token that each store was sent
	shows   int                    // how often the flaw had an effect that a history can prove
}

// simulated is a worker, with one operation at a time in each store.
type simulated struct {
	name  string
	token fence.Token
	lanes map[string]*lane
	ready bool
}

type lane struct {
	raised bool
	open   *history.Event // sent and not yet answered
	judged bool
	answer history.Outcome
}

func newSimulation(seed uint64, flaw string) *simulation {
	s := &simulation{
		builder: newBuilder(), rnd: rand.New(rand.NewPCG(seed, 7)), flaw: flaw,
		marks: map[string]fence.Token{}, written: map[string]fence.Token{},
		shown: map[string]fence.Token{},
	}
	s.header.Expect = history.Expect{}
	for i := range 4 {
		s.workers = append(s.workers, &simulated{name: fmt.Sprintf("worker-%d", i+1)})
	}
	return s
}

func (s *simulation) run(steps int) []history.Event {
	s.elect(s.workers[0])
	for i := range steps {
		switch i {
		case steps / 3:
			s.fault("pause leader #1", "worker-1", history.Begin)
		case steps / 2:
			s.fault("pause leader #1", "worker-1", history.Over)
		}
		w := s.workers[s.rnd.IntN(len(s.workers))]
		switch {
		case s.rnd.IntN(200) == 0:
			s.elect(w)
		case w.token != 0:
			s.act(w, []string{pg, rd}[s.rnd.IntN(2)])
		}
	}
	return s.finish()
}

// elect gives a worker a new term. What it sent before is never answered, as if the process had
// been killed, and may be judged or not.
func (s *simulation) elect(w *simulated) {
	for _, store := range []string{pg, rd} {
		if l := w.lanes[store]; l != nil && l.open != nil && !l.judged && s.rnd.IntN(2) == 0 {
			s.judge(*l.open)
		}
	}
	s.last += fence.Token(1 + s.rnd.IntN(3))
	w.token, w.ready = s.last, false
	w.lanes = map[string]*lane{pg: {}, rd: {}}
	s.term(w.name, history.Won, w.token)
}

// act takes one step in a worker's lane: it sends, judges or answers.
func (s *simulation) act(w *simulated, store string) {
	l := w.lanes[store]
	switch {
	case l.open == nil && !l.raised:
		s.send(w, l, store, history.Raise)
	case l.open == nil && w.ready:
		s.send(w, l, store, history.Write)
	case l.open != nil && !l.judged:
		l.answer, l.judged = s.judge(*l.open), true
	case l.open != nil:
		s.reply(w, l)
	}
}

func (s *simulation) send(w *simulated, l *lane, store string, do history.Do) {
	e := s.invoke(w.name, store, do, w.token)
	l.open, l.judged = &e, false
	s.shown[store] = max(s.shown[store], w.token)
}

// judge acts as the guard and its store.
func (s *simulation) judge(e history.Event) history.Outcome {
	stale := e.Token < s.marks[e.Store]
	same := e.Do == history.Write && e.Token == s.marks[e.Store]
	switch {
	case s.flaw == refuseSame && same && s.rnd.IntN(10) == 0:
		return history.Stale
	case stale && s.flaw == admitStale && e.Do == history.Write && s.rnd.IntN(4) == 0:
		// it is admitted
	case stale:
		return history.Stale
	}
	s.marks[e.Store] = max(s.marks[e.Store], e.Token)
	if s.rnd.IntN(30) == 0 {
		return history.Refused // the session was admitted, and nothing was done
	}
	if e.Do == history.Write && !(s.flaw == loseAcked && s.rnd.IntN(50) == 0) {
		s.commits(e)
		if s.written[e.Store] > e.Token {
			s.shows++
		}
		s.written[e.Store] = max(s.written[e.Store], e.Token)
	}
	return history.OK
}

// reply gives the worker its answer, or loses it.
func (s *simulation) reply(w *simulated, l *lane) {
	e, outcome := *l.open, l.answer
	l.open = nil
	if s.rnd.IntN(20) == 0 {
		outcome = history.Unknown
	}
	s.answer(e, outcome, "")
	if s.flaw == refuseSame && outcome == history.Stale && s.shown[e.Store] <= e.Token {
		s.shows++
	}
	switch {
	case outcome == history.Stale && s.rnd.IntN(2) == 0:
		w.token = 0 // it steps down
	case outcome == history.OK && e.Do == history.Raise:
		l.raised = true
		if w.lanes[pg].raised && w.lanes[rd].raised {
			w.ready = true
			s.term(w.name, history.Ready, w.token)
		}
	}
}

// lost counts the acknowledged writes that no database has.
func (s *simulation) lost() int {
	there := map[string]bool{}
	for _, e := range s.held {
		there[e.Op] = true
	}
	n := 0
	for _, e := range s.events {
		if e.Kind == history.Return && e.Do == history.Write && e.Outcome == history.OK &&
			!there[e.Op] {
			n++
		}
	}
	return n
}

const executions = 100

func TestRandomExecutionsOfACorrectGuardAreNeverInvalid(t *testing.T) {
	first := uint64(time.Now().UnixNano())
	valid := 0
	for seed := first; seed < first+executions; seed++ {
		r := judge(t, newSimulation(seed, none).run(2000))
		if r.Verdict == check.Invalid {
			t.Fatalf("seed %d is invalid:%s", seed, findings(r))
		}
		if r.Verdict == check.Valid {
			valid++
		}
	}
	if valid < executions/2 {
		t.Errorf("only %d of %d executions from seed %d count at all", valid, executions, first)
	}
}

func TestRandomExecutionsOfAFlawedGuardAreInvalid(t *testing.T) {
	for _, flaw := range []string{admitStale, refuseSame, loseAcked} {
		t.Run(flaw, func(t *testing.T) {
			first, shown := uint64(time.Now().UnixNano()), 0
			for seed := first; seed < first+executions; seed++ {
				s := newSimulation(seed, flaw)
				events := s.run(2000)
				if flaw == loseAcked {
					s.shows = s.lost()
				}
				if s.shows == 0 {
					continue
				}
				shown++
				if r := judge(t, events); r.Verdict != check.Invalid {
					t.Errorf("seed %d: the flaw shows %d times and the verdict is %s%s",
						seed, s.shows, r.Verdict, findings(r))
				}
			}
			if shown < executions/3 {
				t.Errorf("the flaw shows in %d of %d executions from seed %d", shown, executions,
					first)
			}
		})
	}
}
