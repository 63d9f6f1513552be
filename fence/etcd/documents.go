package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// Documents returns the documents in the cluster: the keys <prefix>/documents/<path>. A document's
// version is the mod revision of its key, so it never has one twice. All documents of a change may
// have 1,500,000 bytes together, since etcd takes requests of 1,572,864 bytes by default
// (--max-request-bytes).
func (c *Coordinator) Documents() documents.Store { return c.documents }

// maxData is how many bytes of data a change may have.
const maxData = 1_500_000

type store struct {
	*Coordinator
	known campaign.Known // claims with the keys of their candidates
}

// errChanged: a candidate changed between two reads. Look again.
var errChanged = errors.New("the election has changed meanwhile")

// Get implements documents.Store. Of each hundred documents it is one transaction, which compares
// the candidates' keys and the issuer.
func (s *store) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if len(r.While)+len(r.Paths) == 0 {
		return nil, nil
	}
	all := make([]documents.Document, 0, len(r.Paths))
	for rest := r.Paths; ; {
		some := rest[:min(len(rest), maxOps)]
		got, err := ask(ctx, s.Coordinator, "read documents",
			func(ctx context.Context) ([]documents.Document, error) {
				return s.get(ctx, r.While, some)
			})
		if err != nil {
			return nil, err
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
	leads, err := s.leads(ctx, while)
	if err != nil {
		return nil, err
	}
	var gets []clientv3.Op
	for _, p := range paths {
		gets = append(gets, clientv3.OpGet(s.key(p)))
	}
	resp, err := s.client.Txn(ctx).If(leads...).Then(gets...).Commit()
	if err != nil {
		return nil, err
	}
	// A cluster that was restored from a snapshot has the keys, and another id.
	if !resp.Succeeded || slices.ContainsFunc(while, func(claim fence.Claim) bool {
		return checkCluster(claim.Issuer, resp.Header) != nil
	}) {
		if err := s.refuse(ctx, while); err != nil {
			return nil, err
		}
		return nil, errChanged
	}
	all := make([]documents.Document, len(paths))
	for i, p := range paths {
		all[i] = document(p, resp.Responses[i].GetResponseRange().Kvs)
	}
	return all, nil
}

// document makes a document of what was read of its key.
func document(path string, kvs []*mvccpb.KeyValue) documents.Document {
	if len(kvs) == 0 {
		return documents.Document{Path: path}
	}
	return documents.Document{Path: path, Data: kvs[0].Value, Version: kvs[0].ModRevision}
}

// Names implements documents.Store.
func (s *store) Names(ctx context.Context, folder string) ([]string, error) {
	names, _, err := s.list(ctx, folder)
	return slices.Sorted(slices.Values(names)), err
}

// list lists a folder, and returns the revision at which it was so.
func (s *store) list(
	ctx context.Context, folder string,
) (names []string, revision int64, err error) {
	if err := documents.CheckFolder(folder); err != nil {
		return nil, 0, err
	}
	resp, err := ask(ctx, s.Coordinator, "list "+folder,
		func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.client.Get(ctx, s.key(folder)+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		})
	if err != nil {
		return nil, 0, err
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

// WatchNames implements documents.Store. It lists the folder once and then follows the changes. It
// lists it again when the watch ends, as after a compaction or when a member has lost its leader.
func (s *store) WatchNames(ctx context.Context, folder string, each func([]string) error) error {
	tell := campaign.OnOther(each)
	return s.frame.Repeat(ctx, "the folder "+folder, func(ctx context.Context) error {
		list, revision, err := s.list(ctx, folder)
		if err != nil {
			return err
		}
		names := map[string]bool{}
		for _, name := range list {
			names[name] = true
		}
		if err := tell(slices.Sorted(maps.Keys(names))); err != nil {
			return err
		}
		return s.follow(ctx, s.key(folder)+"/", revision+1, func(events []*clientv3.Event) error {
			for _, e := range events {
				if name, inside := s.nameIn(folder, e.Kv); inside && e.Type == clientv3.EventTypeDelete {
					delete(names, name)
				} else if inside {
					names[name] = true
				}
			}
			return tell(slices.Sorted(maps.Keys(names)))
		}, clientv3.WithPrefix())
	})
}

// Watch implements documents.Store.
func (s *store) Watch(ctx context.Context, path string, each func(documents.Document) error) error {
	if err := documents.CheckPath(path); err != nil {
		return err
	}
	tell := campaign.OnChange(campaign.SameVersion, each)
	return s.frame.Repeat(ctx, "the document "+path, func(ctx context.Context) error {
		now, err := ask(ctx, s.Coordinator, "read "+path,
			func(ctx context.Context) (*clientv3.GetResponse, error) {
				return s.client.Get(ctx, s.key(path))
			})
		if err != nil {
			return err
		}
		if err := tell(document(path, now.Kvs)); err != nil {
			return err
		}
		return s.follow(ctx, s.key(path), now.Header.Revision+1, func(events []*clientv3.Event) error {
			last := events[len(events)-1]
			if last.Type == clientv3.EventTypeDelete {
				return tell(document(path, nil))
			}
			return tell(document(path, []*mvccpb.KeyValue{last.Kv}))
		})
	})
}
