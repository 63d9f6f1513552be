package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

var _ fence.Forgetter = (*Coordinator)(nil)

// Forget implements fence.Forgetter. It deletes the election's znode, which the ensemble refuses while
// that has children. The next enrolment makes it again. Its czxid, the token, is a transaction of the
// ensemble, so it is higher than all before.
func (c *Coordinator) Forget(ctx context.Context, r fence.Resource) error {
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
