package work

import (
	"context"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/assign"
)

// Work are the flags of leader work.
type Work struct {
	Capacity int
	Labels   []string
	Strategy string
	EndGrace <-chan struct{} // closed: running commands have no more time to end by themselves
}

// Work runs jobs until ctx ends. Then commands that run have the time of the settings to end by
// themselves.
func (v *Invocation) Work(ctx context.Context, w Work) int {
	q, err := v.queue()
	if err != nil {
		return cli.Failed(ctx, v.Log, "work", err)
	}
	strategy, err := assign.Named(w.Strategy)
	if err != nil {
		return cli.Failed(ctx, v.Log, "work", err)
	}
	raisers := v.Raisers()
	defer stores.Close(raisers)
	worker := jobs.Worker{
		Queue: q.Queue, Name: v.Settings.Holder, Capacity: w.Capacity, Labels: w.Labels, Stores: raisers,
		Strategy: strategy, Grace: v.Settings.DrainTimeout, EndGrace: w.EndGrace, Log: v.Log,
	}
	for _, k := range kinds {
		k.handle(&worker, &machine{v.Setup})
	}
	if v.Watch != nil {
		v.Watch(q, &worker)
	}
	v.Log.Info("working", "group", v.Group, "capacity", w.Capacity)
	if err := worker.Run(ctx); err != nil {
		return cli.Failed(ctx, v.Log, "work for "+v.Group, err)
	}
	return cli.Failed(ctx, v.Log, "go on", context.Cause(ctx)) // a signal, which has its exit code
}
