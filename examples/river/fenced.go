// Package fenced runs River jobs under the fence. docs/jobs.md says what that gives and costs.
//
//	client, err := river.NewClient(driver, &river.Config{
//		Middleware: []rivertype.Middleware{&fenced.Middleware{Elector: coordinator, Stores: stores, Holder: host}},
//		…
//	})
//
//	func (w *SettleWorker) Work(ctx context.Context, job *river.Job[SettleArgs]) error {
//		pool, err := pgstore.NewPool(ctx, fenced.Term(ctx), w.config) // through a guard, under the attempt's token
//		…
//	}
package fenced

import (
	"context"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/ringfence/ringfence/fence"
)

// Middleware lets each attempt win a term of its job's resource before the job's worker is called,
// and raises the mark on the stores. ctx of the worker ends with the term.
type Middleware struct {
	river.MiddlewareDefaults
	Elector fence.Elector // fence/zookeeper, fence/etcd or fence/postgres
	Stores  []fence.Raiser
	Holder  string // who this process is, for people
}

// Resource is what an attempt of a job leads.
func Resource(job int64) fence.Resource { return fence.Resource(fmt.Sprintf("river_%d", job)) }

// Work implements rivertype.WorkerMiddleware.
func (m *Middleware) Work(
	ctx context.Context, job *rivertype.JobRow, work func(context.Context) error,
) error {
	lead := fence.Lead{
		Elector: m.Elector, Resource: Resource(job.ID), Stores: m.Stores,
		Holder: fmt.Sprintf("%s, attempt %d", m.Holder, job.Attempt),
	}
	return lead.Run(ctx, func(ctx context.Context, term *fence.Term) error {
		return work(context.WithValue(ctx, termKey{}, term))
	})
}

type termKey struct{}

// Term returns the term of the attempt that ctx belongs to. It panics where there is none: a client
// without the middleware must not write unfenced.
func Term(ctx context.Context) *fence.Term { return ctx.Value(termKey{}).(*fence.Term) }
