package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Raiser raises marks for a new leader, through a guard or at a Redis where the marker is installed.
type Raiser struct {
	URL string
	// Authority is asked before a mark is raised where no guard does it. Give marks.Elected with the coordinator that the
	// term was won at; without it the claim is taken at its word, but for a mark that may have been lost.
	Authority marks.Authority
}

// NewRaiser is a Raiser for the guard or Redis at url.
func NewRaiser(url string) fence.Raiser { return Raiser{URL: url} }

// Raise is fence.Raiser's. It opens a session under the claim: through a guard that is all it takes, for the guard
// admits nobody before the mark is raised and older sessions are gone. Redis itself does not know the command; then
// Raise does the guard's work, which needs the guard's rights. Unless the Authority verifies, a Redis that has lost its
// marker is not installed.
func (r Raiser) Raise(ctx context.Context, c fence.Claim) error {
	db, err := open(r.URL, Options{Connections: 1})
	if err != nil {
		return err
	}
	defer db.Close()
	// The driver tries again when the connection breaks: a guard may have had to end every connection of the server.
	err = db.Do(ctx, "FENCE", string(c.Resource), c.Token.String()).Err()
	switch {
	case err == nil:
		return nil
	case NoGuard(err):
		return r.raiseDirectly(ctx, c)
	}
	return fmt.Errorf("at %s: %w", Address(r.URL), Refused(err, c))
}

// NoGuard says that this is no guard.
func NoGuard(err error) bool {
	return strings.HasPrefix(err.Error(), "ERR unknown command")
}

func (r Raiser) raiseDirectly(ctx context.Context, c fence.Claim) error {
	a := marks.Admission{Authority: r.Authority}
	if a.Authority == nil {
		a.Authority = marks.Unverified{}
	}
	s, err := Open(ctx, r.URL, Options{Connections: 1, Coordinated: a.Authority.Verifies()})
	if err != nil {
		return fmt.Errorf("at %s: %w", Address(r.URL), err)
	}
	defer s.Close()
	a.Store = s
	if err := a.Raise(ctx, c); err != nil {
		return fmt.Errorf("at %s: %w", Address(r.URL), err)
	}
	return nil
}
