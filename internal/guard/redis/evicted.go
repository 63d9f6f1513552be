package redis

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/internal/guard"
)

// errEvicted is the last word to an evicted client, whatever the guard was doing for it.
var errEvicted = errors.New("the place was given to another connection; nothing was written; connect again")

// evicted tells whether the end of ctx is an eviction.
func evicted(ctx context.Context) bool { return errors.Is(context.Cause(ctx), guard.Evicted) }

// dismiss says the last word to an evicted client: for the command under way, and for each that waits behind it. There is
// none behind half a reply, and none for a client that was told already why it is not served.
func (c *conn) dismiss() {
	if c.leg != nil {
		_ = c.leg.Close() // before anything that may take a moment
	}
	if !c.told && !c.mid {
		guard.Dismiss(c.client, c.forEach(lineOf(errEvicted)).Bytes())
	}
}
