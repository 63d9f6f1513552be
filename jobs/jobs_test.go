package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/jobs"
)

func TestJobsRun(t *testing.T) {
	m := fencetest.NewMemory(10 * time.Second)
	c := m.Open()
	defer c.Close()
	q, err := jobs.New(c, "settlement")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var ran atomic.Int64
	for i := range 3 {
		running.Go(func() {
			co := m.Open()
			defer co.Close()
			q, _ := jobs.New(co, "settlement")
			w := jobs.Worker{Queue: q, Name: fmt.Sprint("w", i), Handlers: map[string]jobs.Handler{
				"add": func(ctx context.Context, r *jobs.Run) (any, error) {
					ran.Add(1)
					var n int
					if err := r.Decode(&n); err != nil {
						return nil, err
					}
					if n%10 == 3 && r.Failure == 0 {
						return nil, errors.New("the first try fails")
					}
					return n + 1, nil
				},
			}}
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	const many = 50
	var ids []jobs.ID
	for i := range many {
		id, err := q.Submit(t.Context(), jobs.Spec{Kind: "add", Payload: []byte(fmt.Sprint(i)), Retries: 1,
			Backoff: jobs.Duration(time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for i, id := range ids {
		s, err := q.Wait(t.Context(), id)
		if err != nil || s.State != jobs.Done || string(s.Result) != fmt.Sprint(i+1) {
			t.Errorf("job %d: %+v, %v", i, s, err)
		}
	}
	cancel()
	running.Wait()
	if n := ran.Load(); n != many+5 {
		t.Errorf("%d runs", n)
	}
}
