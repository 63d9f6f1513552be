package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// wrapped is a coordinator whose calls a test has in its hands.
type wrapped struct {
	documents.Coordinator
	change func(documents.Change, func() ([]int64, error)) ([]int64, error)
	get    func() error // nil, or what it returns: the reading goes on
}

// Documents implements documents.Coordinator.
func (w *wrapped) Documents() documents.Store { return wrappedStore{w.Coordinator.Documents(), w} }

type wrappedStore struct {
	documents.Store
	w *wrapped
}

// Change implements documents.Store.
func (s wrappedStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	return s.w.change(c, func() ([]int64, error) { return s.Store.Change(ctx, c) })
}

// Get implements documents.Store.
func (s wrappedStore) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if s.w.get != nil {
		if err := s.w.get(); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, r)
}

// lostOnce makes the first change and loses its answer. Then it calls next.
func lostOnce(next func()) func(documents.Change, func() ([]int64, error)) ([]int64, error) {
	lost := false
	return func(_ documents.Change, do func() ([]int64, error)) ([]int64, error) {
		versions, err := do()
		if err != nil || lost {
			return versions, err
		}
		lost = true
		next()
		return nil, fmt.Errorf("%w: on purpose", documents.ErrUnknown)
	}
}

// queues opens the jobs of a group twice: as they are, and with a wrapped coordinator.
func queues(t *testing.T, w *wrapped) (plain, q *jobs.Queue) {
	t.Helper()
	c := fencetest.NewMemory(10 * time.Second).Open()
	t.Cleanup(func() { c.Close() })
	w.Coordinator = c
	plain, err := jobs.New(c, "g")
	must.Succeed(t, err)
	if q, err = jobs.New(w, "g"); err != nil {
		t.Fatal(err)
	}
	return plain, q
}

func submitLater(t *testing.T, q *jobs.Queue) job.ID {
	t.Helper()
	id, err := q.Submit(t.Context(), job.Spec{Kind: "k", NotBefore: time.Now().Add(time.Hour)})
	must.Succeed(t, err)
	return id
}

// Only a change whose answer was lost may have been made.
func TestAChangeThatMeetsAnotherOneHasNotBeenMade(t *testing.T) {
	for name, do := range map[string]func(*jobs.Queue, context.Context, job.ID) error{
		"run": (*jobs.Queue).RunNow, "pause": (*jobs.Queue).Pause,
	} {
		for _, lost := range []bool{false, true} {
			w := &wrapped{}
			plain, q := queues(t, w)
			id := submitLater(t, plain)
			cancel := func() {
				must.Report(t, plain.Cancel(t.Context(), id))
			}
			w.change = lostOnce(cancel)
			if !lost {
				w.change = func(_ documents.Change, do func() ([]int64, error)) ([]int64, error) {
					cancel()
					return do()
				}
			}
			if err := do(q, t.Context(), id); errors.Is(err, job.ErrWrongState) == lost || lost &&
				err != nil {
				t.Errorf("%s, the answer is lost: %v: %v", name, lost, err)
			}
		}
	}
}

func TestAnErrorAfterALostAnswerDoesNotSayThatNothingWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wrapped{}
		plain, q := queues(t, w)
		id := submitLater(t, plain)
		w.change = lostOnce(func() {
			w.get = func() error { return fmt.Errorf("%w: on purpose", documents.ErrUnreachable) }
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := q.Pause(ctx, id)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fence.ErrUnknown) ||
			errors.Is(err, fence.ErrNotDone) || strings.Contains(fmt.Sprint(err), fence.ErrNotDone.Error()) {
			t.Errorf("the change was made, and its answer was lost: %v", err)
		}
		refused := &fence.Refusal{Reason: fence.ErrStale, Message: "on purpose"}
		w.get = nil
		w.change = lostOnce(func() { w.get = func() error { return refused } })
		if err := q.Resume(t.Context(), id); !errors.Is(err, fence.ErrStale) ||
			!errors.Is(err, fence.ErrUnknown) {
			t.Errorf("the change was made, and the next call refused: %v", err)
		}
	})
}

// A worker publishes what a try has brought, and hears nothing of it.
func TestAResultWhoseAnswerIsLostIsNotDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Bool
		w := &wrapped{}
		_, q := queues(t, w)
		lose := lostOnce(func() {})
		w.change = func(c documents.Change, do func() ([]int64, error)) ([]int64, error) {
			if ran.Load() && len(c.While) > 0 && strings.Contains(string(c.Writes[0].Data), `"outcome"`) {
				return lose(c, do)
			}
			return do()
		}
		var log bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() {
			_ = jobs.Worker{Queue: q, Name: "w", Log: slog.New(slog.NewTextHandler(&log, nil)),
				Handlers: map[string]jobs.Handler{
					"k": func(context.Context, *jobs.Run) (any, error) { ran.Store(true); return nil, nil },
				}}.Run(ctx)
		})
		id, err := q.Submit(t.Context(), job.Spec{Kind: "k"})
		must.Succeed(t, err)
		if s, err := q.Wait(t.Context(), id); err != nil || s.State != job.Done || s.Attempt != 1 {
			t.Errorf("%v, %+v", err, s)
		}
		time.Sleep(time.Minute)
		stop()
		working.Wait()
		if strings.Contains(log.String(), "discarded") {
			t.Error(log.String())
		}
	})
}

// Their capacities are added up.
func TestWorkersOfAnyCapacityAreAssignedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, q := queues(t,
			&wrapped{change: func(_ documents.Change, do func() ([]int64, error)) ([]int64, error) {
				return do()
			}})
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		for range 2 {
			working.Go(func() {
				_ = jobs.Worker{Queue: q, Name: "w", Capacity: math.MaxInt, Handlers: map[string]jobs.Handler{
					"k": func(context.Context, *jobs.Run) (any, error) { return nil, nil },
				}}.Run(ctx)
			})
		}
		time.Sleep(time.Minute) // both are members
		id, err := q.Submit(t.Context(), job.Spec{Kind: "k"})
		must.Succeed(t, err)
		waiting, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if s, err := q.Wait(waiting, id); err != nil || s.State != job.Done {
			t.Errorf("%v, %+v", err, s)
		}
		stop()
		working.Wait()
	})
}
