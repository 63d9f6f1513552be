package pgguard

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard/pgguard/databases"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// keepEvery is how often Keep looks whether a database is still the one that it has opened.
const keepEvery = 10 * time.Second

// Keep implements guard.Keeper.
func (p *Protocol) Keep(ctx context.Context, failed func(string, error)) {
	var kept sync.WaitGroup
	for _, name := range p.o.Databases {
		kept.Go(func() { p.keep(ctx, p.databases.At(name), failed) })
	}
	kept.Wait()
}

// keep opens a database, and leaves it for a moment each time: it may have been dropped, and
// another one has its name.
func (*Protocol) keep(ctx context.Context, at *databases.Selected, failed func(string, error)) {
	for ctx.Err() == nil {
		if err := at.Open(ctx); err != nil && ctx.Err() == nil {
			failed(at.Name, err)
		}
		backoff.Pause(ctx, keepEvery)
		at.Leave()
	}
}
