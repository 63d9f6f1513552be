package redisstore

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// Raiser raises marks for a new leader, through a guard or at a Redis where the marker is
// installed.
// Where there is no guard, it keeps its connection for further raises, so use one Raiser for all
// terms and jobs, and Close it. Raise may be called from any goroutine; calls share the connection.
type Raiser struct {
	url         string
	coordinator elector.Observer
	kept        marks.StoreCache
}

// NewRaiser returns a Raiser for the guard or Redis at url. The coordinator confirms the claim
// before Raise raises a mark without a guard: give the one at which the term was won. When it is
// nil, the claim is believed, unless the mark may have been lost. The options password_file=FILE
// and password_command=COMMAND of the URL say where a password is that may change: it is read again
// for each new connection.
func NewRaiser(url string, coordinator elector.Observer) *Raiser {
	return &Raiser{url: url, coordinator: coordinator}
}

// Raise implements fence.Raiser. It opens a session under the claim. A guard then raises the mark
// and ends older sessions before it admits the session. Redis itself does not know the command:
// there Raise does the guard's work, which needs the guard's rights. Without a coordinator, a Redis
// that has lost its marker counts as not installed.
func (r *Raiser) Raise(ctx context.Context, c fence.Claim) error {
	inner := redismarks.Raiser{URL: r.url, Kept: &r.kept}
	if r.coordinator != nil {
		inner.Authority = marks.Elected{Observer: r.coordinator}
	}
	return inner.Raise(ctx, c)
}

// Close closes the connection that the Raiser keeps, when no Raise uses it any more. A Raise after
// Close opens its own.
func (r *Raiser) Close() { r.kept.Close() }
