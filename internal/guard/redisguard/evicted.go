package redisguard

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/internal/guard"
)

// errEvicted is the last reply to an evicted client, whatever the guard was doing for it.
var errEvicted = errors.New(
	"the place was given to another connection; nothing was written; connect again")

// evicted reports whether ctx ended because of an eviction.
func evicted(ctx context.Context) bool { return errors.Is(context.Cause(ctx), guard.Evicted) }

// dismiss sends the last reply to an evicted client: for the command under way, and for each that
// waits behind it. It sends nothing after half a reply, and nothing to a client that has got its
// final error already.
func (c *conn) dismiss() {
	if c.upstream != nil {
		_ = c.upstream.Close() // first, because the reply may take a moment
	}
	if !c.finalReplySent && !c.midReply {
		guard.Dismiss(c.client, c.forEachPending(lineOf(errEvicted)).Bytes())
	}
}
