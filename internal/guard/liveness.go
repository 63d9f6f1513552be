package guard

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
)

// SessionProber is a store that can tell whether a session still lives.
type SessionProber interface {
	Alive(ctx context.Context, s marks.SessionID) (bool, error)
}

// LivenessOf checks one session at a store, which may be nil.
func LivenessOf(store SessionProber, s marks.SessionID, stall time.Duration) relay.Liveness {
	if store == nil {
		return relay.Liveness{}
	}
	check := func(ctx context.Context) (bool, error) { return store.Alive(ctx, s) }
	return relay.Liveness{Check: check, Stall: stall}
}
