package worker

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/lab/traffic"
)

// lateAssignment is a failpoint: an assignment to a worker is not answered. It arrives when that
// worker has left and is forgotten, or never if that takes longer than lateTime: in the final phase
// no worker leaves. Until then no assignment of this process is answered, and the others never
// arrive.
type lateAssignment struct {
	ctx    context.Context
	b      *jobWorker
	worker string

	mu   sync.Mutex
	held bool
	over bool
}

const lateTime = 20 * time.Second

// holds returns whether the change is an assignment that is not answered.
func (l *lateAssignment) holds(c documents.Change) bool {
	if l == nil || !assigns(c) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := l.names(c); id != 0 && !l.held {
		l.held = true
		l.b.w.note("an assignment to %s is on its way, and not answered", l.worker)
		l.b.w.watches.Go(func() { l.arrive(id, c) })
	}
	return l.held && !l.over
}

// names returns the worker's ID if the change assigns jobs to it, and 0 otherwise.
func (l *lateAssignment) names(c documents.Change) fence.Token {
	for _, s := range traffic.JobSteps(c) {
		if s.Status.WorkerName == l.worker && l.worker != l.b.w.c.Name {
			return s.Status.Worker
		}
	}
	return 0
}

// arrive makes the change once the worker is forgotten.
func (l *lateAssignment) arrive(worker fence.Token, c documents.Change) {
	if !l.forgotten(worker) {
		l.b.w.note("the assignment is lost on its way")
	} else if _, err := l.b.docs.Change(l.ctx, c); err != nil {
		l.b.w.note("the assignment has arrived, and is refused: %v", err)
	} else {
		l.b.w.note("the assignment has arrived, and counts")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// forgotten waits until a worker is forgotten, and reports whether it is.
func (l *lateAssignment) forgotten(worker fence.Token) bool {
	ctx, cancel := context.WithTimeout(l.ctx, lateTime)
	defer cancel()
	for ctx.Err() == nil {
		names, err := l.b.docs.Names(ctx, path.Clean(traffic.JobFolder("workers")))
		if err == nil && !slices.Contains(names, worker.String()) {
			return true
		}
		pause(ctx, 10*time.Millisecond)
	}
	return false
}
