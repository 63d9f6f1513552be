package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/system"
)

// client is a client of the lab's jobs. It is no worker, and no fault hits it. It records what it
// asks for, and the steps of jobs that it makes.
type client struct {
	*Load
	name  string
	at    documents.Coordinator
	queue *jobs.Queue
	ops   atomic.Int64
}

func (l *Load) newClient(ctx context.Context, name string) (*client, error) {
	at, err := system.OpenCoordinator(ctx, l.sys.Addresses().Coordinator, coordinators.Options{})
	if err != nil {
		return nil, err
	}
	c := &client{Load: l, name: name, at: at}
	c.queue, err = jobs.New(clientCoordinator{at, c}, JobGroup)
	return c, err
}

// clientCoordinator records the steps of jobs.
type clientCoordinator struct {
	documents.Coordinator
	c *client
}

// Documents implements documents.Coordinator.
func (c clientCoordinator) Documents() documents.Store {
	return clientStore{c.Coordinator.Documents(), c.c}
}

type clientStore struct {
	documents.Store
	c *client
}

// Change implements documents.Store.
func (s clientStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	steps := JobSteps(c)
	for i := range steps {
		e := &steps[i].Event
		e.Process, e.Op = s.c.name+"/jobs", s.c.op("j")
		s.c.rec.Add(*e)
	}
	versions, err := s.Store.Change(ctx, c)
	for _, step := range steps {
		s.c.rec.Add(step.Returned(versions, err))
	}
	return versions, err
}

// op names the client's next operation; kind is one letter.
func (c *client) op(kind string) string {
	return fmt.Sprintf("%s.%s%d", c.name, kind, c.ops.Add(1))
}

// submit submits a job; false if it is not known whether it was handed in.
func (c *client) submit(ctx context.Context, j submission) (id job.ID, ok bool) {
	j.Payload, _ = json.Marshal(j.payload)
	e := history.Event{Do: history.Submit, Op: c.op("s"), Step: j.payload.Steps, Unique: j.Unique}
	if j.fails() {
		e.State = history.JobFailed
	}
	if c.Workload.ClientFlaw == flaw.NoKey {
		j.Unique = ""
	}
	return id, c.call(ctx, e, func(ctx context.Context, e *history.Event) (err error) {
		id, err = c.queue.Submit(ctx, j.Spec)
		e.Key = string(id)
		return err
	})
}

// cancel asks for the end of a job.
func (c *client) cancel(ctx context.Context, id job.ID) bool {
	e := history.Event{Do: history.Cancel, Op: c.op("c"), Key: string(id)}
	return c.call(ctx, e, func(ctx context.Context, _ *history.Event) error {
		if c.Workload.ClientFlaw == flaw.CancelAnyway {
			return c.cancelAnyway(ctx, id)
		}
		return c.queue.Cancel(ctx, id)
	})
}

// retry makes a job wait again.
func (c *client) retry(ctx context.Context, id job.ID) bool {
	e := history.Event{Do: history.Retry, Op: c.op("r"), Key: string(id)}
	return c.call(ctx, e, func(ctx context.Context, _ *history.Event) error {
		err := c.queue.Retry(ctx, id)
		if err == nil && c.Workload.ClientFlaw == flaw.OldRequest {
			c.repeatRequest(ctx, id)
		}
		return err
	})
}

// call makes a call within submitTime, records it, and reports whether it was acknowledged. do may
// add to its Return.
func (c *client) call(
	ctx context.Context, e history.Event, do func(context.Context, *history.Event) error,
) bool {
	e.Kind, e.Process = history.Invoke, c.name
	c.rec.Add(e)
	bounded, cancel := context.WithTimeout(ctx, submitTime)
	defer cancel()
	err := do(bounded, &e)
	e.Kind, e.Outcome = history.Return, history.OK
	if err != nil {
		e.Outcome, e.Text = history.Unknown, err.Error()
	}
	if errors.Is(err, job.ErrWrongState) || errors.Is(err, job.ErrTaken) {
		e.Outcome = history.Failed
	}
	c.rec.Add(e)
	return err == nil
}
