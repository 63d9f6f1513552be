package fencetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// flawed is a Client with a Leaders that is wrong on purpose.
type flawed struct {
	*Client
	wrong func(f *flawed, now *answer)

	mu    sync.Mutex
	first answer // the first issuer, and who led each resource first
	last  answer // what was right the last time
	empty []fence.Resource
}

// answer is an answer of Leaders.
type answer struct {
	asked   []fence.Resource
	issuer  fence.Issuer
	leaders []fence.Candidate
	err     error
}

// of returns the leader of a resource in the answer.
func (a answer) of(r fence.Resource) (fence.Candidate, bool) {
	if i := slices.Index(a.asked, r); i >= 0 {
		return a.leaders[i], true
	}
	return fence.Candidate{}, false
}

func (f *flawed) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []fence.Candidate, error) {
	now := answer{asked: slices.Clone(rs)}
	now.issuer, now.leaders, now.err = f.Client.Leaders(ctx, rs...)
	f.mu.Lock()
	defer f.mu.Unlock()
	right := now
	right.leaders = slices.Clone(now.leaders)
	f.wrong(f, &now)
	if right.err == nil {
		f.remember(right)
	}
	return now.issuer, now.leaders, now.err
}

func (f *flawed) remember(right answer) {
	f.last = right
	if f.first.issuer == "" {
		f.first.issuer = right.issuer
	}
	for i, r := range right.asked {
		_, known := f.first.of(r)
		switch leads := right.leaders[i].Token != 0; {
		case leads && !known:
			f.first.asked, f.first.leaders = append(f.first.asked, r), append(f.first.leaders,
				right.leaders[i])
		case !leads && !known:
			f.empty = append(f.empty, r)
		}
	}
}

// each makes a flaw that changes the leader of each resource.
func each(
	change func(f *flawed, r fence.Resource, leader *fence.Candidate),
) func(*flawed, *answer) {
	return func(f *flawed, now *answer) {
		for i := range now.leaders {
			change(f, now.asked[i], &now.leaders[i])
		}
	}
}

// flaws are ways to be wrong, with words of the clauses that must find each of them.
var flaws = []struct {
	name  string
	finds []string
	wrong func(f *flawed, now *answer)
}{
	{
		"names the last of the queue", []string{"the first candidate leads", "agree with the candidates"},
		each(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if queue, err := f.Candidates(context.Background(), r); err == nil && len(queue) > 0 {
				*l = queue[len(queue)-1]
			}
		}),
	},
	{
		"names nobody who is not ready", []string{"the first candidate leads", "the next one leads"},
		each(func(_ *flawed, _ fence.Resource, l *fence.Candidate) {
			if !l.Ready {
				*l = fence.Candidate{}
			}
		}),
	},
	{
		"leaves the holder out", []string{"agree with the candidates"},
		each(func(_ *flawed, _ fence.Resource, l *fence.Candidate) { l.Holder = "" }),
	},
	{
		"returns them in reverse order", []string{"in the order of"},
		func(_ *flawed, now *answer) { slices.Reverse(now.leaders) },
	},
	{
		"leaves out resources that nobody leads", []string{"in the order of"},
		func(_ *flawed, now *answer) {
			now.leaders = slices.DeleteFunc(now.leaders, func(l fence.Candidate) bool {
				return l.Token == 0
			})
		},
	},
	{
		"names who led first", endings,
		each(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if first, ok := f.first.of(r); ok {
				*l = first
			}
		}),
	},
	{
		"names who led at the last call", endings,
		each(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if last, ok := f.last.of(r); ok {
				*l = last
			}
		}),
	},
	{
		"remembers that nobody leads", []string{"the first candidate leads", "in the order of"},
		each(func(f *flawed, r fence.Resource, l *fence.Candidate) {
			if slices.Contains(f.empty, r) {
				*l = fence.Candidate{}
			}
		}),
	},
	{
		"remembers the issuer", []string{"today's issuer"},
		func(f *flawed, now *answer) {
			if f.first.issuer != "" {
				now.issuer = f.first.issuer
			}
		},
	},
	{
		"returns the issuer of the last call", []string{"today's issuer"},
		func(f *flawed, now *answer) {
			if f.last.issuer != "" {
				now.issuer = f.last.issuer
			}
		},
	},
	{
		"answers from memory while it is cut off", []string{"cut off names no leader"},
		func(f *flawed, now *answer) {
			if now.err != nil {
				*now = f.last
			}
		},
	},
	{
		"does not check the names of resources", []string{"a bad resource is refused"},
		func(_ *flawed, now *answer) {
			if errors.Is(now.err, fence.ErrBadResource) {
				now.err = nil
			}
		},
	},
	{
		"answers when it is closed", []string{"closing loses the terms"},
		func(_ *flawed, now *answer) {
			if errors.Is(now.err, ErrClosed) {
				now.err = nil
			}
		},
	},
}

// endings are the clauses in which a term ends.
var endings = []string{
	"the next one leads", "a lost term", "has expired is not named", "was deleted is not named",
}

// Each flaw must break the clauses about it: a contract that never fails proves nothing. In a
// bubble a cut takes no time.
func TestTheContractFindsFlaws(t *testing.T) {
	for _, flaw := range flaws {
		for _, words := range flaw.finds {
			t.Run(flaw.name+"/"+words, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { finds(t, words, flaw.wrong) }) })
		}
	}
}

func finds(t *testing.T, words string, wrong func(*flawed, *answer)) {
	t.Helper()
	c := clause(t, words)
	right := func(*flawed, *answer) {}
	if fails(t, func(w *witness) { c.run(w, flawedHarness(right)) }) {
		t.Errorf("%q fails without a flaw", c.name)
	}
	if !fails(t, func(w *witness) { c.run(w, flawedHarness(wrong)) }) {
		t.Errorf("not found by %q", c.name)
	}
}

// clause returns the clause that contains these words.
func clause(t *testing.T, words string) check {
	t.Helper()
	all := slices.Concat(clauses, faultClauses)
	i := slices.IndexFunc(all, func(c check) bool { return strings.Contains(c.name, words) })
	if i < 0 {
		t.Fatalf("there is no clause %q", words)
	}
	return all[i]
}

func flawedHarness(wrong func(*flawed, *answer)) Harness {
	const timeout = 6 * time.Second
	m := NewMemory(timeout)
	client := func(c fence.Coordinator) *Client { return c.(*flawed).Client }
	return Harness{
		Open: func(testing.TB) fence.Coordinator {
			return &flawed{Client: m.Open(), wrong: wrong}
		},
		SessionTimeout: timeout,
		Cut:            func(_ testing.TB, c fence.Coordinator) { client(c).Cut() },
		Heal:           func(_ testing.TB, c fence.Coordinator) { client(c).Heal() },
		Expire:         func(_ testing.TB, c fence.Coordinator) { client(c).Expire() },
		Delete:         func(_ testing.TB, r fence.Resource, token fence.Token) { m.Delete(r, token) },
		Alone: func(testing.TB) (c, operator fence.Coordinator) {
			m := NewMemory(timeout)
			return &flawed{Client: m.Open(), wrong: wrong}, m.Open()
		},
	}
}

// fails reports whether a clause fails.
func fails(t *testing.T, run func(w *witness)) bool {
	w := &witness{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends the goroutine of the clause, not ours
		defer close(done)
		run(w)
	}()
	<-done
	return w.failed.Load()
}

// witness is a testing.TB that only records failures.
type witness struct {
	testing.TB
	failed atomic.Bool
}

func (w *witness) Error(args ...any) { w.Errorf("%s", fmt.Sprint(args...)) }
func (w *witness) Errorf(format string, args ...any) {
	w.failed.Store(true)
	w.TB.Logf(format, args...)
}
func (w *witness) Fatal(args ...any)                 { w.Fatalf("%s", fmt.Sprint(args...)) }
func (w *witness) Fatalf(format string, args ...any) { w.Errorf(format, args...); runtime.Goexit() }
func (w *witness) Failed() bool                      { return w.failed.Load() }
func (w *witness) Logf(string, ...any)               {}
func (w *witness) Helper()                           {}
