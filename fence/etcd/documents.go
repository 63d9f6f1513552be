package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Documents returns the documents in the cluster: the keys <prefix>/documents/<path>. A document's
// version is the mod revision of its key, so it never has one twice. All documents of a change may
// have 1,500,000 bytes together, since etcd takes requests of 1,572,864 bytes by default
// (--max-request-bytes).
func (c *Coordinator) Documents() documents.Store { return c.documents }

var _ documents.Coordinator = (*Coordinator)(nil)

// documentsLimit is how many bytes of data a change may have.
const documentsLimit = 1_500_000

type store struct {
	c       *Coordinator
	leading *cluster.Leading
}

// key returns the key of a document, or of a folder.
func (s *store) key(path string) string { return s.c.client.Documents() + path }

// Get implements documents.Store.
func (s *store) Get(ctx context.Context, paths ...string) ([]documents.Document, error) {
	for _, p := range paths {
		if err := documents.CheckPath(p); err != nil {
			return nil, err
		}
	}
	var all []documents.Document
	for some := range slices.Chunk(paths, opsMost) {
		got, err := cluster.Ask(ctx, s.c.client, "read documents", func(
			ctx context.Context,
		) ([]documents.Document, error) {
			return s.get(ctx, some)
		})
		if err != nil {
			return nil, documentError(err)
		}
		all = append(all, got...)
	}
	return all, nil
}

func (s *store) get(ctx context.Context, paths []string) ([]documents.Document, error) {
	var gets []clientv3.Op
	for _, p := range paths {
		gets = append(gets, clientv3.OpGet(s.key(p)))
	}
	resp, err := s.c.client.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		return nil, err
	}
	all := make([]documents.Document, len(paths))
	for i, p := range paths {
		all[i] = documents.Document{Path: p}
		if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			all[i] = document(p, kvs[0])
		}
	}
	return all, nil
}

func document(path string, kv *mvccpb.KeyValue) documents.Document {
	return documents.Document{Path: path, Data: kv.Value, Version: kv.ModRevision}
}

// Names implements documents.Store.
func (s *store) Names(ctx context.Context, folder string) ([]string, error) {
	names, _, err := s.list(ctx, folder)
	return slices.Sorted(slices.Values(names)), err
}

// list lists a folder, and returns the revision at which it was so.
func (s *store) list(ctx context.Context, folder string) (names []string, revision int64, err error) {
	if err := documents.CheckFolder(folder); err != nil {
		return nil, 0, err
	}
	resp, err := cluster.Ask(ctx, s.c.client, "list "+folder, func(
		ctx context.Context,
	) (*clientv3.GetResponse, error) {
		return s.c.client.Get(ctx, s.key(folder)+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	})
	if err != nil {
		return nil, 0, documentError(err)
	}
	for _, kv := range resp.Kvs {
		if name, inside := s.nameIn(folder, kv); inside {
			names = append(names, name)
		}
	}
	return names, resp.Header.Revision, nil
}

// nameIn returns the name of a document in a folder, unless it is in a folder below.
func (s *store) nameIn(folder string, kv *mvccpb.KeyValue) (name string, inside bool) {
	name = strings.TrimPrefix(string(kv.Key), s.key(folder)+"/")
	return name, !strings.Contains(name, "/")
}

// documentError translates an error of a call that has changed nothing.
func documentError(err error) error {
	if errors.Is(err, cluster.ErrUnreachable) {
		return fmt.Errorf("%w: %w", documents.ErrUnreachable, err)
	}
	return err
}

// refusalOf returns why a claim does not lead, or nil if it does.
func (s *store) refusalOf(ctx context.Context, claim fence.Claim) error {
	_, err := cluster.Ask(ctx, s.c.client, "confirm "+claim.String(), func(
		ctx context.Context,
	) (string, error) {
		return s.leading.Find(ctx, claim)
	})
	return documentError(err)
}
