package zookeeper

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/internal/ensemble"
)

// Release implements fence.Backing. It deletes the candidate by its full name, which no other term
// ever has. Without a connection it waits for one, until ctx or the session ends. If there is no
// answer, the session deletes the candidate as soon as there is one, or times out.
func (e *candidate) Release(ctx context.Context) error {
	if e.s.Ended() != nil {
		e.s.Forget(e.Key)
		return nil // the candidate is gone with the session, or will be before anybody leads
	}
	err := e.remove(ctx, "")
	e.Leave()
	if err == nil || ensemble.SessionOver(err) {
		return nil
	}
	return fmt.Errorf("the candidate of %s=%s may stay until ZooKeeper answers "+
		"or its session times out: %w", e.Resource, e.Token(), err)
}
