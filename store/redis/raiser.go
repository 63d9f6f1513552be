package redis

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	redismarks "github.com/ringfence/ringfence/internal/marks/redis"
)

// Raiser raises marks for a new leader, through a guard or at a Redis where the marker is installed.
type Raiser struct {
	URL string
	// Coordinator is asked before a mark is raised where no guard does it: the one that the term was won at. Without it
	// the claim is taken at its word, but for a mark that may have been lost.
	Coordinator fence.Observer
}

// NewRaiser is a Raiser for the guard or Redis at url.
func NewRaiser(url string) fence.Raiser { return Raiser{URL: url} }

// Raise is fence.Raiser's. It opens a session under the claim: through a guard that is all it takes, for the guard
// admits nobody before the mark is raised and older sessions are gone. Redis itself does not know the command; then
// Raise does the guard's work, which needs the guard's rights. Without a Coordinator, a Redis that has lost its marker
// is not installed.
func (r Raiser) Raise(ctx context.Context, c fence.Claim) error {
	inner := redismarks.Raiser{URL: r.URL}
	if r.Coordinator != nil {
		inner.Authority = marks.Elected{Observer: r.Coordinator}
	}
	return inner.Raise(ctx, c)
}
