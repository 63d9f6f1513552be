package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/assign"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/traffic"
)

// jobWorker is this process as a worker of the lab's jobs.
type jobWorker struct {
	w    *worker
	docs documents.Store // not recorded

	place string // of the failpoint
	nth   int    // the change of the failpoint
	late  *lateAssignment

	mu      sync.Mutex
	changes map[string]int // that assign jobs or take jobs back, so far
	// what this process has published last about a job that it runs
	running map[job.ID]publishedStatus
	lanes   []bool // in use
}

// publishedStatus is a job's status with the version of its document.
type publishedStatus struct {
	job.Status
	version int64
}

// jobs runs jobs until ctx ends.
func (w *worker) jobs(ctx context.Context, at documents.Coordinator) error {
	b := &jobWorker{
		w: w, docs: at.Documents(), changes: map[string]int{}, running: map[job.ID]publishedStatus{},
	}
	b.place, b.nth, _ = w.c.failpoint()
	if b.place == late {
		b.late = &lateAssignment{ctx: ctx, b: b, worker: fmt.Sprint("worker-", b.nth)}
	}
	queue, err := jobs.New(jobCoordinator{at, b}, traffic.JobGroup)
	if err != nil {
		return err
	}
	strategy, err := assign.Named(cmp.Or(w.c.Strategy, "least-loaded"))
	if err != nil {
		return err
	}
	var stores []fence.Raiser
	if w.c.Route != scenario.Direct {
		stores = []fence.Raiser{w.raiserPG(nil)}
	}
	defer closeRaisers(stores)
	return jobs.Worker{
		Queue: queue, Handlers: map[string]jobs.Handler{traffic.JobKind: b.handle},
		Name: w.c.Name, Capacity: scenario.JobCapacity, Stores: stores, Strategy: strategy,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}.Run(ctx)
}

// jobCoordinator is the coordinator of the jobs. It records the terms of the assigner, and
// the steps of jobs.
type jobCoordinator struct {
	documents.Coordinator
	b *jobWorker
}

// Documents implements documents.Coordinator.
func (c jobCoordinator) Documents() documents.Store {
	return jobStore{c.Coordinator.Documents(), c.b}
}

// Campaign implements fence.Elector.
func (c jobCoordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	term, err := c.Coordinator.Campaign(ctx, r, holder)
	if err == nil && r == traffic.Assigner {
		c.b.term(history.Ready, term.Claim(), "", "")
		c.b.w.watches.Go(func() {
			<-term.Context().Done()
			c.b.term(history.Lost, term.Claim(), "", lost(term))
		})
	}
	return term, err
}

// term records a state of a term: of a job, or of the assigner.
func (b *jobWorker) term(s history.State, c fence.Claim, of job.ID, text string) {
	b.w.emit(history.Event{
		Kind: history.Term, Process: b.w.c.Name, State: s, Token: c.Token, Issuer: c.Issuer,
		Resource: c.Resource, Key: string(of), Text: text,
	})
}

// takeLane returns the smallest number of a lane that is free, from 1. free gives it back.
func (b *jobWorker) takeLane() (number int, free func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(b.lanes) && b.lanes[n] {
		n++
	}
	if n == len(b.lanes) {
		b.lanes = append(b.lanes, false)
	}
	b.lanes[n] = true
	return n + 1, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lanes[n] = false
	}
}
