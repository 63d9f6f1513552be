package queueview_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// summary is an overview in one line.
func summary(t *testing.T, q *queueview.View) string {
	t.Helper()
	o, err := q.Overview(t.Context(), 2)
	must.Succeed(t, err)
	var parts []string
	for _, state := range []job.State{
		job.Waiting, job.Assigned, job.Running, job.Done, job.Failed, job.Cancelled,
	} {
		if n := o.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	list := func(what string, all []job.Status) {
		if len(all) == 0 {
			return
		}
		parts = append(parts, what)
		for _, status := range all {
			parts = append(parts, status.Unique)
		}
	}
	list("next", o.Waiting)
	list("active", o.Active)
	list("failed", o.Failed)
	list("last", o.Ended)
	for _, w := range o.Workers {
		parts = append(parts,
			fmt.Sprintf("%s %d/%d %v %t", w.Name, w.Jobs, w.Capacity, w.Labels, w.Assigns))
	}
	return strings.Join(parts, " ")
}

func TestAnOverviewCountsEveryJobAndShowsTheNextAndTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fencetest.NewMemory(10 * time.Second).Open()
		defer c.Close()
		q, err := queueview.New(c, "g")
		must.Succeed(t, err)
		ids := map[string]job.ID{}
		submit := func(name string, spec job.Spec) {
			t.Helper()
			time.Sleep(time.Millisecond) // of the bubble: jobs of one millisecond have no order
			spec.Kind, spec.Unique, spec.Keep = "k", name, job.Duration(time.Hour)
			if ids[name], err = q.Submit(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		}
		if got := summary(t, q); got != "" {
			t.Errorf("nothing: %s", got)
		}
		submit("a", job.Spec{})
		submit("b", job.Spec{})
		submit("urgent", job.Spec{Priority: 9})
		if got, want := summary(t, q), "3 waiting next urgent a"; got != want {
			t.Errorf("before: %s, want %s", got, want)
		}

		release := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() {
			_ = jobs.Worker{Queue: q.Queue, Name: "w", Capacity: 2, Labels: []string{"gpu"},
				Handlers: map[string]jobs.Handler{
					"k": func(ctx context.Context, r *jobs.Run) (any, error) {
						select {
						case <-release:
						case <-ctx.Done():
						}
						if r.Spec.Unique == "b" {
							return nil, errors.New("bad")
						}
						return nil, context.Cause(ctx)
					},
				}}.Run(ctx)
		})
		time.Sleep(time.Second)
		if got, want := summary(t, q),
			"1 waiting 2 running next b active a urgent w 2/2 [gpu] true"; got != want {
			t.Errorf("while it works: %s, want %s", got, want)
		}
		must.Succeed(t, q.Cancel(t.Context(), ids["a"]))
		time.Sleep(time.Second)
		close(release)
		time.Sleep(time.Second)
		submit("later", job.Spec{NotBefore: time.Now().Add(time.Hour)})
		got := summary(t, q)
		if want := "1 waiting 1 done 1 failed 1 cancelled next later failed b last urgent a w 0/2 " +
			"[gpu] true"; got != want {
			t.Errorf("after: %s, want %s", got, want)
		}
		must.Succeed(t, q.Retry(t.Context(), ids["b"]))
		time.Sleep(time.Minute) // it fails again
		if got := summary(t, q); !strings.Contains(got, " 1 failed 1 cancelled next later failed b "+
			"last urgent ") {
			t.Errorf("after a retry: %s", got)
		}
		time.Sleep(90 * time.Minute) // the others are forgotten
		if got, want := summary(t, q), "1 done last later w 0/2 [gpu] true"; got != want {
			t.Errorf("hours later: %s, want %s", got, want)
		}
		stop()
		working.Wait()
	})
}
