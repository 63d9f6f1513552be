package jobs_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// hours runs a worker in a bubble of time, and returns at which hour each run of a job has begun.
func hours(t *testing.T, spec job.Spec, do func(q *jobs.Queue, id job.ID)) (ran []float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := fencetest.NewMemory(10 * time.Second).Open()
		defer c.Close()
		q, err := jobs.New(c, "g")
		must.Succeed(t, err)
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() {
			_ = jobs.Worker{Queue: q, Name: "w", Capacity: 1, Handlers: map[string]jobs.Handler{
				"k": func(context.Context, *jobs.Run) (any, error) {
					ran = append(ran, time.Since(began).Round(time.Minute).Hours())
					return nil, nil
				},
			}}.Run(ctx)
		})
		spec.Kind = "k"
		id, err := q.Submit(t.Context(), spec)
		must.Succeed(t, err)
		do(q, id)
		stop()
		working.Wait()
	})
	return ran
}

func wantHours(t *testing.T, got []float64, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("it ran at %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("it ran at %v, want %v", got, want)
		}
	}
}

func TestAPausedJobStartsAgainWhenItsScheduleSaysSo(t *testing.T) {
	ran := hours(t, job.Spec{Every: "1h"}, func(q *jobs.Queue, id job.ID) {
		time.Sleep(90 * time.Minute)
		for range 2 { // pausing it again changes nothing
			must.Report(t, q.Pause(t.Context(), id))
		}
		if err := q.RunNow(t.Context(), id); !errors.Is(err, job.ErrWrongState) {
			t.Errorf("a paused job is to run now: %v", err)
		}
		time.Sleep(4 * time.Hour) // at 5.5
		for range 2 {
			must.Report(t, q.Resume(t.Context(), id))
		}
		time.Sleep(time.Hour)
	})
	wantHours(t, ran, 0, 1, 6)
}

func TestAJobThatRunsNowKeepsItsSchedule(t *testing.T) {
	ran := hours(t, job.Spec{Every: "1h"}, func(q *jobs.Queue, id job.ID) {
		time.Sleep(90 * time.Minute)
		must.Report(t, q.RunNow(t.Context(), id))
		time.Sleep(time.Hour)
	})
	wantHours(t, ran, 0, 1, 1.5, 2)
	ran = hours(t, job.Spec{NotBefore: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)},
		func(q *jobs.Queue, id job.ID) {
			time.Sleep(time.Hour)
			must.Report(t, q.RunNow(t.Context(), id))
			time.Sleep(time.Minute)
			if err := q.RunNow(t.Context(), id); !errors.Is(err, job.ErrWrongState) {
				t.Errorf("a job that is done is to run now: %v", err)
			}
			if err := q.Pause(t.Context(), id); !errors.Is(err, job.ErrWrongState) {
				t.Errorf("a job that is done is paused: %v", err)
			}
		})
	wantHours(t, ran, 1)
}
