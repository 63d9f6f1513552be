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

// errChanged: a candidate changed between two reads. Look again.
var errChanged = errors.New("the election has changed meanwhile")

// Get implements documents.Store. Of each hundred documents it is one transaction, which compares the
// candidates' keys and the issuer.
func (s *store) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if len(r.While)+len(r.Paths) == 0 {
		return nil, nil
	}
	all := make([]documents.Document, 0, len(r.Paths))
	for rest := r.Paths; ; {
		some := rest[:min(len(rest), opsMost)]
		got, err := cluster.Ask(ctx, s.c.client, "read documents", func(
			ctx context.Context,
		) ([]documents.Document, error) {
			return s.get(ctx, r.While, some)
		})
		if err != nil {
			return nil, documentError(err)
		}
		all = append(all, got...)
		if rest = rest[len(some):]; len(rest) == 0 {
			return all, nil
		}
	}
}

func (s *store) get(
	ctx context.Context, while []fence.Claim, paths []string,
) ([]documents.Document, error) {
	var leads []clientv3.Cmp
	for _, claim := range while {
		key, err := s.leading.Candidate(ctx, claim)
		if err != nil {
			return nil, err
		}
		leads = append(leads, s.leading.Conditions(claim, key)...)
	}
	var gets []clientv3.Op
	for _, p := range paths {
		gets = append(gets, clientv3.OpGet(s.key(p)))
	}
	resp, err := s.c.client.Txn(ctx).If(leads...).Then(gets...).Commit()
	if err != nil {
		return nil, err
	}
	// A cluster that was restored from a snapshot has the keys, and another id.
	if !resp.Succeeded || slices.ContainsFunc(while, func(claim fence.Claim) bool {
		return cluster.CheckCluster(claim.Issuer, resp.Header) != nil
	}) {
		for _, claim := range while {
			s.leading.Forget(claim.Resource)
			if _, err := s.leading.Find(ctx, claim); err != nil {
				return nil, err // which says why
			}
		}
		return nil, errChanged
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
