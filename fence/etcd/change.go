package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Change implements documents.Store. It is one transaction, which compares the candidates' keys, the
// issuer and the versions.
func (s *store) Change(ctx context.Context, ch documents.Change) ([]int64, error) {
	if err := s.check(ch); err != nil {
		return nil, err
	}
	conditions, err := s.conditions(ctx, ch)
	if err != nil {
		return nil, err
	}
	resp, err := s.send(ctx, conditions, s.operations(ch))
	switch {
	case err != nil:
		return nil, err
	case !resp.Succeeded:
		return nil, s.unchanged(ctx, ch)
	}
	for _, claim := range ch.While {
		if err := cluster.CheckCluster(claim.Issuer, resp.Header); err != nil {
			return nil, fmt.Errorf("%w: %w", documents.ErrUnknown, err)
		}
	}
	versions := make([]int64, len(ch.Writes))
	for i, w := range ch.Writes {
		if w.Kind == documents.KindPut {
			versions[i] = resp.Header.Revision
		}
	}
	return versions, nil
}

func (s *store) check(ch documents.Change) error {
	if err := ch.Check(); err != nil {
		return err
	}
	bytes := 0
	for _, w := range ch.Writes {
		bytes += len(w.Data)
	}
	if bytes > documentsLimit {
		return fmt.Errorf("%w: the change has %d bytes, the limit is %d; nothing was sent",
			documents.ErrTooLarge, bytes, documentsLimit)
	}
	return nil
}

// conditions are what has to hold when the change is made. A claim led when it was first looked up.
func (s *store) conditions(ctx context.Context, ch documents.Change) (all []clientv3.Cmp, err error) {
	for _, claim := range ch.While {
		key, err := s.leading.LookUp(ctx, claim)
		if err != nil {
			return nil, documentError(err)
		}
		all = append(all, s.leading.Conditions(claim, key)...)
	}
	for _, w := range ch.Writes {
		is := clientv3.Compare(clientv3.ModRevision(s.key(w.Path)), "=", w.Version)
		if w.Version == documents.AnyVersion {
			is = clientv3.Compare(clientv3.ModRevision(s.key(w.Path)), ">", 0)
		}
		all = append(all, is)
	}
	return all, nil
}

func (s *store) operations(ch documents.Change) (all []clientv3.Op) {
	for _, w := range ch.Writes {
		switch w.Kind {
		case documents.KindPut:
			all = append(all, clientv3.OpPut(s.key(w.Path), string(w.Data)))
		case documents.KindDelete:
			all = append(all, clientv3.OpDelete(s.key(w.Path)))
		}
	}
	return all
}

// send sends the transaction at most once. If it returns an error that is not ErrUnknown, nothing
// has changed.
func (s *store) send(
	ctx context.Context, conditions []clientv3.Cmp, operations []clientv3.Op,
) (*clientv3.TxnResponse, error) {
	// A request on a broken connection would be of unknown outcome, although it is never sent.
	if s.c.client.ActiveConnection().GetState() != connectivity.Ready {
		if _, err := s.c.Issuer(ctx); err != nil {
			return nil, documentError(err)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, stop := s.c.client.WithEnd(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, s.c.client.RequestTimeout())
	defer cancel()
	resp, err := s.c.client.Txn(ctx).If(conditions...).Then(operations...).Commit()
	switch {
	case err == nil:
		return resp, nil
	case cluster.TooLarge(err):
		return nil, fmt.Errorf("%w: etcd's --max-request-bytes is too low for it; nothing has changed: %w",
			documents.ErrTooLarge, err)
	case cluster.Refused(err):
		return nil, fmt.Errorf("etcd refuses the change: %w", err)
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return nil, fmt.Errorf("%w: %w", documents.ErrUnreachable, err)
	}
	return nil, fmt.Errorf("%w: %w", documents.ErrUnknown, cluster.Unclear(ctx, err))
}

// unchanged explains a transaction of which a condition has failed. A claim that still leads led at
// that time too, so it was a version.
func (s *store) unchanged(ctx context.Context, ch documents.Change) error {
	for _, claim := range ch.While {
		s.leading.Forget(claim.Resource)
		if err := s.refusalOf(ctx, claim); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w; nothing has changed", documents.ErrConflict)
}
