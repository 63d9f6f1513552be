package zookeeper

import (
	"context"

	"github.com/ringfence/ringfence/fence"
)

// Campaign implements fence.Elector. While no server answers, it keeps trying. If ctx ends, the
// error contains the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := fence.CheckHolder(holder); err != nil {
		return nil, err
	}
	if err := c.client.Begin(); err != nil {
		return nil, err
	}
	defer c.client.Done()
	ctx, stop := c.client.WithClose(ctx)
	defer stop()
	return c.campaigns.Campaign(ctx, r, holder)
}
