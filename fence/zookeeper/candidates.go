package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Issuer implements fence.Observer.
func (c *Coordinator) Issuer(ctx context.Context) (fence.Issuer, error) {
	return election.Issuer(ctx, c.client)
}

// RenewIssuer implements fence.IssuerRenewer. It gives the ensemble a new issuer, as if it had been
// built anew. An operator needs it after the ensemble was restored from a backup, because its
// counter then issues numbers twice. Earlier claims keep the old issuer, and an operator adopts
// each resource. A database session carries only a number, so stop all leaders first. After
// ErrUnreachable the issuer may have been renewed; call RenewIssuer again.
func (c *Coordinator) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	return election.RenewIssuer(ctx, c.client)
}

// Candidates implements fence.Observer. It syncs with the ensemble's leader before it reads.
func (c *Coordinator) Candidates(ctx context.Context, r fence.Resource) ([]fence.Candidate, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	return ensemble.Ask(ctx, c.client, func(
		ctx context.Context, s *ensemble.Session,
	) ([]fence.Candidate, error) {
		if err := s.Sync(ctx, c.client.Root()); err != nil {
			return nil, err
		}
		names, err := s.List(ctx, election.Dir(c.client.Root(), r))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, c.client.Explain(election.Dir(c.client.Root(), r), err)
		}
		return c.queue(ctx, s, r, names)
	})
}

// Depose implements fence.Elector.
func (c *Coordinator) Depose(ctx context.Context, r fence.Resource, t fence.Token) (bool, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return false, err
	}
	sent := false // if a delete had no reply and the znode is gone, this call deleted it
	return ensemble.Ask(ctx, c.client, func(ctx context.Context, s *ensemble.Session) (bool, error) {
		if err := s.Sync(ctx, c.client.Root()); err != nil {
			return false, err
		}
		all, err := c.find(ctx, s, r, t)
		if err != nil {
			return false, err
		}
		for _, at := range all {
			sent = true
			_, err = ensemble.Retry(ctx, s,
				func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(at, -1) })
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return false, c.client.Explain(at, err)
			}
		}
		return sent, nil
	})
}

// find returns the paths of the candidates with the token: none, one, or several that share it.
func (c *Coordinator) find(
	ctx context.Context, s *ensemble.Session, r fence.Resource, t fence.Token,
) ([]string, error) {
	dir := election.Dir(c.client.Root(), r)
	names, err := s.List(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, c.client.Explain(dir, err)
	}
	entries, err := election.ReadEntries(ctx, s, dir, names)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if e.Token == t {
			found = append(found, path.Join(dir, e.Name))
		}
	}
	return found, nil
}

// queue reads the candidates with these names, in order.
func (c *Coordinator) queue(
	ctx context.Context, s *ensemble.Session, r fence.Resource, names []string,
) ([]fence.Candidate, error) {
	dir := election.Dir(c.client.Root(), r)
	entries, err := c.entries.Entries(ctx, s, dir, names)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	ready, err := election.Acknowledged(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	queue := make([]fence.Candidate, len(entries))
	for i, e := range entries {
		queue[i] = fence.Candidate{
			Token: e.Token, ID: e.ID(), Holder: e.Holder, Ready: i == 0 && e.Token == ready,
		}
	}
	return queue, nil
}
