package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// Change implements documents.Store. It is one transaction, which compares the candidates' keys,
// the issuer and the versions.
func (s *store) Change(ctx context.Context, ch documents.Change) ([]int64, error) {
	if err := campaign.CheckChange(ch, maxData); err != nil {
		return nil, err
	}
	conditions, err := ask(ctx, s.Coordinator, "look claims up",
		func(ctx context.Context) ([]clientv3.Cmp, error) {
			return s.leads(ctx, ch.While)
		})
	if err != nil {
		return nil, err
	}
	operations := s.writes(ch, &conditions)
	resp, err := s.send(ctx, conditions, operations)
	switch {
	case err != nil:
		return nil, err
	case !resp.Succeeded:
		return nil, s.unchanged(ctx, ch)
	}
	for _, claim := range ch.While {
		if err := checkCluster(claim.Issuer, resp.Header); err != nil {
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

// writes returns the operations of a change, and adds to the conditions the versions that it names.
func (s *store) writes(ch documents.Change, conditions *[]clientv3.Cmp) (operations []clientv3.Op) {
	for _, w := range ch.Writes {
		key := s.key(w.Path)
		is := clientv3.Compare(clientv3.ModRevision(key), "=", w.Version)
		if w.Version == documents.AnyVersion {
			is = clientv3.Compare(clientv3.ModRevision(key), ">", 0)
		}
		*conditions = append(*conditions, is)
		switch w.Kind {
		case documents.KindPut:
			operations = append(operations, clientv3.OpPut(key, string(w.Data)))
		case documents.KindDelete:
			operations = append(operations, clientv3.OpDelete(key))
		}
	}
	return operations
}

// send sends the transaction at most once. If it returns an error that is not ErrUnknown, nothing
// has changed.
func (s *store) send(
	ctx context.Context, conditions []clientv3.Cmp, operations []clientv3.Op,
) (*clientv3.TxnResponse, error) {
	// A request on a broken connection would be of unknown outcome, although it is never sent.
	if s.client.ActiveConnection().GetState() != connectivity.Ready {
		if _, err := s.Issuer(ctx); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, done, err := s.frame.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, s.frame.RequestTimeout())
	defer cancel()
	resp, err := s.client.Txn(ctx).If(conditions...).Then(operations...).Commit()
	switch {
	case err == nil:
		return resp, nil
	case tooLarge(err):
		return nil,
			fmt.Errorf("%w: etcd's --max-request-bytes is too low for it; nothing has changed: %w",
				documents.ErrTooLarge, err)
	case refused(err):
		return nil, fmt.Errorf("etcd refuses the change: %w", explain(err))
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return nil, fmt.Errorf("%w: %w", documents.ErrUnreachable, explain(err))
	}
	err = explain(err)
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return nil, fmt.Errorf("%w: %w", documents.ErrUnknown, err)
}

// unchanged explains a transaction of which a condition has failed. A claim that still leads led at
// that time too, so it was a version.
func (s *store) unchanged(ctx context.Context, ch documents.Change) error {
	_, err := ask(ctx, s.Coordinator, "look claims up", func(ctx context.Context) (any, error) {
		return nil, s.refuse(ctx, ch.While)
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("%w; nothing has changed", documents.ErrConflict)
}
