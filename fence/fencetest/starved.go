package fencetest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// starvedProcess lets a term live for longer than a session timeout while every CPU is busy, and
// then cuts it off. Both candidates are in the starved process. It runs alone, because it would
// starve other clauses.
func starvedProcess(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	b := s.open()
	next := s.enrolTimed(b, "b")
	begin := time.Now()
	starved := starve()
	defer starved.end()
	s.eventually("the term has been starved for some time and is active, or it is lost", func() bool {
		state := term.State()
		return state == fence.Lost ||
			state == fence.Active && time.Since(begin) > s.SessionTimeout*3/2
	})
	// A machine may stall for any time. If it did not, nothing excuses a loss.
	if term.State() == fence.Lost && starved.worst() < s.SessionTimeout/40 {
		s.Errorf("the term was lost although no goroutine waited longer than %v", starved.worst())
	}
	s.cut(c)
	won := next.at()
	if state := term.State(); state != fence.Lost {
		s.Errorf("term %v is %v when the next one has won", term.Claim(), state)
	}
	if d := term.Deadline(); d.After(won) {
		s.Errorf("the next term was won %v before the deadline of %v", d.Sub(won), term.Claim())
	}
	s.ends(term, 0, fence.ErrExpired)
	starved.end()
	s.heal(c)
	newer := next.term()
	s.wantState(newer, fence.Active)
	s.resign(newer)
}

// timed is a campaign that notes when it was won.
type timed struct {
	*run
	returned chan time.Time
}

// enrolTimed is enrol.
func (s *stage) enrolTimed(c elector.Coordinator, holder string) timed {
	s.Helper()
	n := &noting{Coordinator: c, returned: make(chan time.Time, 1)}
	return timed{s.enrol(n, holder), n.returned}
}

// at waits until the campaign has been won, and returns a time that is no earlier.
func (t timed) at() time.Time {
	t.s.Helper()
	select {
	case at := <-t.returned:
		return at
	case <-time.After(t.s.SessionTimeout + t.s.patience):
		t.s.Fatalf("%s does not lead", t.holder)
	}
	return time.Time{}
}

// noting notes when Campaign has returned.
type noting struct {
	elector.Coordinator
	returned chan time.Time
}

func (n *noting) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	term, err := n.Coordinator.Campaign(ctx, r, holder)
	n.returned <- time.Now()
	return term, err
}

// starvation keeps every CPU of the process busy, with loops, garbage and a contended lock.
type starvation struct {
	stop  chan struct{}
	once  sync.Once
	work  sync.WaitGroup
	pause atomic.Int64 // the longest that a goroutine waited for its turn
}

func starve() *starvation {
	s := &starvation{stop: make(chan struct{})}
	var lock sync.Mutex
	var held int
	for range runtime.GOMAXPROCS(0) {
		s.burn(func() {
			for i := range 1_000_000 {
				held := i * i
				_ = held
			}
		})
		s.burn(func() {
			var garbage [][]byte
			for range 1000 {
				garbage = append(garbage, make([]byte, 1000))
			}
			runtime.KeepAlive(garbage)
		})
		s.burn(func() {
			for range 1000 {
				lock.Lock()
				held++
				lock.Unlock()
			}
		})
	}
	s.work.Go(s.measure)
	return s
}

// burn does something again and again until the end.
func (s *starvation) burn(something func()) {
	s.work.Go(func() {
		for !s.over() {
			something()
		}
	})
}

func (s *starvation) over() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// measure notes how late a goroutine runs after a short sleep.
func (s *starvation) measure() {
	const rest = 10 * time.Millisecond
	for !s.over() {
		begin := time.Now()
		time.Sleep(rest)
		if late := time.Since(begin) - rest; int64(late) > s.pause.Load() {
			s.pause.Store(int64(late))
		}
	}
}

// worst returns the longest that a goroutine has waited for its turn so far.
func (s *starvation) worst() time.Duration { return time.Duration(s.pause.Load()) }

// end frees the CPUs. It may be called twice.
func (s *starvation) end() {
	s.once.Do(func() { close(s.stop) })
	s.work.Wait()
}
