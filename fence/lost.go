package fence

import (
	"errors"
	"fmt"
)

// ErrLost matches every cause that ends a term. A term's context is cancelled with one of the four
// causes below, and context.Cause returns it. None of them says whether the last write landed: ask
// the store.
var ErrLost = errors.New("leadership lost")

var (
	// ErrExpired: the coordinator has not answered for a session timeout on the local monotonic
	// clock, or the coordinator says that the session expired. Another leader may exist already.
	ErrExpired = fmt.Errorf("%w: the coordinator session expired", ErrLost)
	// ErrDeposed: somebody else, such as an operator, deleted the leader's znode or key.
	ErrDeposed = fmt.Errorf("%w: deposed, its election entry was deleted", ErrLost)
	// ErrResigned: the holder gave the term up with Resign.
	ErrResigned = fmt.Errorf("%w: resigned", ErrLost)
	// ErrSuperseded: a store said that the token is stale. A newer leader has raised the mark.
	ErrSuperseded = fmt.Errorf("%w: superseded, a store has accepted a newer token", ErrLost)
)
