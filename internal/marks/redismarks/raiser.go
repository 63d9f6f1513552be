package redismarks

import (
	"context"
	"fmt"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Raiser raises marks for a new leader, through a guard or at a Redis where the marker is
// installed.
type Raiser struct {
	URL string
	// Authority confirms a raise where no guard does. Set marks.Elected with the coordinator that
	// the term was won at. Without it Raise trusts the claim, unless the mark may have been lost.
	Authority marks.Authority
	// Kept keeps the connection of a raise without a guard for the next one. Without it each raise
	// opens its own.
	Kept *marks.StoreCache
}

// NewRaiser makes a Raiser for the guard or Redis at url.
func NewRaiser(url string) fence.Raiser { return Raiser{URL: url} }

// Raise implements fence.Raiser. It opens a session under the claim. A guard then raises the mark
// and ends older sessions before it admits the session. Redis itself does not know the command:
// there Raise does the guard's work, which needs the guard's rights. Unless the Authority verifies
// tokens, a Redis that has lost its marker counts as not installed.
func (r Raiser) Raise(ctx context.Context, c fence.Claim) error {
	coordinated := r.Authority != nil && r.Authority.Verifies()
	err := r.Kept.Raise(ctx, r.Authority, c, r.Present, func() (marks.Reached, error) {
		return Open(ctx, r.URL, Options{Connections: 1, Coordinated: coordinated})
	})
	if err != nil {
		return fmt.Errorf("at %s: %w", Address(r.URL), err)
	}
	return nil
}

// Present opens a session under the claim, and reports whether a guard has admitted it.
func (r Raiser) Present(ctx context.Context, c fence.Claim) (guarded bool, err error) {
	// The driver sends the name first, and it claims as well. A guard of a full server makes room for
	// a connection that claims, and refuses others.
	t, err := control(r.URL, Options{Connections: 1, name: refusal.ClientName(c)}, probeConnection)
	if err != nil {
		return false, err
	}
	db := driver.NewClient(t.opt)
	defer db.Close()
	// The driver retries when the connection breaks: a guard may have had to end every connection
	// of the server.
	err = db.Do(ctx, "FENCE", string(c.Resource), c.Token.String()).Err()
	switch {
	case err == nil:
		return true, nil
	case NoGuard(err):
		return false, nil
	}
	return false, Refused(err, c)
}

// NoGuard reports whether the answer to FENCE came from Redis itself and not from a guard.
func NoGuard(err error) bool {
	return strings.HasPrefix(err.Error(), "ERR unknown command")
}
