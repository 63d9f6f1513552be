package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

var _ fence.Forgetter = (*Coordinator)(nil)

// forgets is how many elections are deleted at a time.
const forgets = 8

// Forget implements fence.Forgetter. It deletes the elections' znodes, which the ensemble refuses while
// they have children. The next enrolment makes one again. Its czxid, the token, is a transaction of the
// ensemble, so it is higher than all before.
func (c *Coordinator) Forget(ctx context.Context, rs ...fence.Resource) error {
	var all errgroup.Group
	all.SetLimit(forgets)
	for _, r := range rs {
		all.Go(func() error { return c.forget(ctx, r) })
	}
	return all.Wait()
}

func (c *Coordinator) forget(ctx context.Context, r fence.Resource) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	dir := election.Dir(c.client.Root(), r)
	_, err := ensemble.Ask(ctx, c.client, func(
		ctx context.Context, s *ensemble.Session,
	) (struct{}, error) {
		return ensemble.Retry(ctx, s, func(conn *zk.Conn) (struct{}, error) {
			return struct{}{}, conn.Delete(dir, -1)
		})
	})
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return c.client.Explain(dir, err)
}
