package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

const orders fence.Resource = "orders"

var errBoom = errors.New("boom")

// stage is a journal in memory and a sequence of leaders that use it.
type stage struct {
	*testing.T
	journal *checkpointtest.Memory
	token   fence.Token
	issuer  fence.Issuer
	diary   diary
	failed  int // calls of a failing step
}

func newStage(t *testing.T) *stage {
	return &stage{T: t, journal: checkpointtest.NewMemory(), token: 1 << 53, issuer: "coordinator-1"}
}

// lead makes a new leader and raises the mark to it.
func (s *stage) lead() (*fence.Term, *elector.Keeper) {
	s.Helper()
	s.token++
	c := fence.Claim{Resource: orders, Token: s.token, Issuer: s.issuer, Holder: "host-1"}
	must.Succeed(s, s.journal.Raise(context.Background(), c))
	term, keeper := elector.NewTerm(c, time.Now(), sessionTimeout, nothing{})
	s.Cleanup(func() { _ = term.Resign(context.Background()) })
	return term, keeper
}

const sessionTimeout = 24 * time.Hour

// term returns the term of a new leader.
func (s *stage) term() *fence.Term {
	s.Helper()
	term, _ := s.lead()
	return term
}

// nothing is a elector.Backing without a coordinator.
type nothing struct{}

func (nothing) Acknowledge(context.Context) error { return nil }
func (nothing) Release(context.Context) error     { return nil }

// done is a task's state: the keys of the steps that are done.
type done struct{ Keys []string }

func (d done) with(key checkpoint.Key) done {
	return done{append(slices.Clone(d.Keys), key.String())}
}

// diary records effects outside the journal.
type diary struct {
	mu   sync.Mutex
	keys []string
}

func (d *diary) note(key checkpoint.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = append(d.keys, key.String())
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.keys)
}

// noting makes an asynchronous step that adds its key to the diary and, unless fail has an error
// for this call, to the state.
func (s *stage) noting(name string, fail ...error) checkpoint.Step[done] {
	return checkpoint.Step[done]{Name: name, Run: func(
		_ context.Context, d done, key checkpoint.Key,
	) (done, error) {
		s.diary.note(key)
		if len(fail) > 0 {
			err := fail[0]
			fail = fail[1:]
			return done{}, err
		}
		return d.with(key), nil
	}}
}

// appending makes a synchronous step whose effect is its name.
func appending(name string) checkpoint.Step[done] {
	return checkpoint.Synchronous(name, func(
		_ context.Context, tx *checkpointtest.Tx, d done,
	) (done, error) {
		tx.Append(name)
		return done{append(slices.Clone(d.Keys), name)}, nil
	})
}

// tasked makes a task of these steps.
func tasked(steps ...checkpoint.Step[done]) checkpoint.Task[done] {
	return checkpoint.Task[done]{Name: "nightly", Steps: steps}
}

// run runs a task under a new leader.
func (s *stage) run(t checkpoint.Task[done]) (checkpoint.Checkpoint, error) {
	s.Helper()
	return t.Run(s.Context(), s.term(), s.journal, checkpoint.Checkpoint{})
}

// finishes fails the test unless the task is done.
func (s *stage) finishes(t checkpoint.Task[done]) checkpoint.Checkpoint {
	s.Helper()
	cp, err := s.run(t)
	if err != nil || cp.Status != checkpoint.Done {
		s.Fatalf("run: %v, status %q", err, cp.Status)
	}
	return cp
}

// stops fails the test unless the task stops.
func (s *stage) stops(t checkpoint.Task[done]) *checkpoint.StoppedError {
	s.Helper()
	cp, err := s.run(t)
	stopped, ok := errors.AsType[*checkpoint.StoppedError](err)
	if !ok || !errors.Is(err, checkpoint.ErrStopped) || cp.Status != checkpoint.Stopped ||
		cp.Failure == nil {
		s.Fatalf("run: %v, status %q", err, cp.Status)
	}
	if stored := s.stored(); stored.Status != checkpoint.Stopped || stored.Version != cp.Version {
		s.Fatalf("stored: %+v, want %+v", stored, cp)
	}
	return stopped
}

// stored returns the task's checkpoint, or the zero one if there is none.
func (s *stage) stored() checkpoint.Checkpoint {
	s.Helper()
	all, err := s.journal.Load(context.Background(), "nightly")
	must.Succeed(s, err)
	if len(all) == 0 {
		return checkpoint.Checkpoint{}
	}
	return all[0]
}

// state returns the stored state.
func (s *stage) state() (d done) {
	s.Helper()
	must.Succeed(s, json.Unmarshal(s.stored().State, &d))
	return d
}

// effects returns the values that synchronous steps have committed.
func (s *stage) effects() (values []string) {
	for _, e := range s.journal.Effects() {
		values = append(values, e.Value)
	}
	return values
}

// equal fails the test unless got and want are equal.
func equal[S ~[]E, E comparable](t testing.TB, what string, got, want S) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// is fails the test unless err matches every error in want.
func is(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("got %v, want %v", err, w)
		}
	}
}
