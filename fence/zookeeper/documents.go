package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// Documents returns the documents in the ensemble: the znodes <root>/documents/<folder>/<name>,
// with ':' for each '/' in the folder's path. The folder is a container, which the ensemble deletes
// some time after its last document. A document's version is its dataVersion plus 1; one that is
// created again begins with 1 again. All documents of a change may have 950,000 bytes together, and
// a folder some 15,000 names of 50 bytes, since a server takes requests and gives answers of 1 MB
// (jute.maxbuffer).
func (c *Coordinator) Documents() documents.Store { return c.documents }

// maxData is how many bytes of data a change may have. The default of jute.maxbuffer is 1,048,575.
const maxData = 950_000

type store struct {
	*Coordinator
	known campaign.Known // claims with the paths of their candidates
}

// folder returns the path of a folder's znode.
func (s *store) folder(folder string) string {
	return s.client.Path + "/documents/" + strings.ReplaceAll(folder, "/", ":")
}

// znode returns the path of a document's znode.
func (s *store) znode(document string) string {
	folder, name := path.Split(document)
	return s.folder(strings.TrimSuffix(folder, "/")) + "/" + name
}

// version returns the version of a document from its znode's stat.
func version(stat *zk.Stat) int64 { return int64(stat.Version) + 1 }

// Get implements documents.Store. Under terms, a transaction that checks their issuer and
// candidates comes first: no earlier read of this session's server can follow it. A sync would not
// suffice, because a server that believes that it still leads the ensemble answers a sync, too. The
// look at the candidates afterwards, and at the watch of the issuer, whose notice would have come
// before the answers, shows that the terms led during the read.
func (s *store) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if len(r.While)+len(r.Paths) == 0 {
		return nil, nil
	}
	return ensemble.Ask(ctx, s.client, func(
		ctx context.Context, session *ensemble.Session,
	) (all []documents.Document, err error) {
		claims := make([]standing, len(r.While))
		for i, claim := range r.While {
			if claims[i], err = s.confirm(ctx, session, claim); err != nil {
				return nil, err
			}
		}
		if len(claims) == 0 {
			if err := session.Sync(ctx); err != nil {
				return nil, err
			}
		}
		if all, err = s.read(ctx, session, r.Paths); err != nil || len(r.Paths) == 0 {
			return nil, err
		}
		for i, at := range claims {
			if err := s.stillLeads(ctx, session, r.While[i], at); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
}

// read reads several documents at a time.
func (s *store) read(
	ctx context.Context, session *ensemble.Session, paths []string,
) ([]documents.Document, error) {
	all := make([]documents.Document, len(paths))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(atOnce)
	for i, p := range paths {
		reads.Go(func() (err error) {
			n, err := session.Get(ctx, s.znode(p))
			if errors.Is(err, zk.ErrNoNode) {
				n, err = ensemble.Node{}, nil
			}
			all[i] = document(p, n)
			return s.client.Explain(s.znode(p), err)
		})
	}
	return all, reads.Wait()
}

// document makes a document of its znode; without a Stat there is none.
func document(p string, n ensemble.Node) documents.Document {
	if n.Stat == nil {
		return documents.Document{Path: p}
	}
	return documents.Document{Path: p, Data: n.Data, Version: version(n.Stat)}
}

// Names implements documents.Store.
func (s *store) Names(ctx context.Context, folder string) ([]string, error) {
	if err := documents.CheckFolder(folder); err != nil {
		return nil, err
	}
	names, err := ensemble.Ask(ctx, s.client, func(
		ctx context.Context, session *ensemble.Session,
	) ([]string, error) {
		if err := session.Sync(ctx); err != nil {
			return nil, err
		}
		names, _, err := session.Children(ctx, s.folder(folder))
		return names, err
	})
	slices.Sort(names)
	return names, err
}

// WatchNames implements documents.Store.
func (s *store) WatchNames(ctx context.Context, folder string, each func([]string) error) error {
	if err := documents.CheckFolder(folder); err != nil {
		return err
	}
	read := func(ctx context.Context, session *ensemble.Session) ([]string, <-chan zk.Event, error) {
		names, changed, err := ensemble.WatchOrAwait(ctx, session, s.folder(folder),
			session.WatchChildren)
		slices.Sort(names)
		return names, changed, err
	}
	return ensemble.Follow(ctx, s.client, "the folder "+folder, read, campaign.OnOther(each))
}

// Watch implements documents.Store.
func (s *store) Watch(ctx context.Context, at string, each func(documents.Document) error) error {
	if err := documents.CheckPath(at); err != nil {
		return err
	}
	read := func(ctx context.Context, session *ensemble.Session) (ensemble.Node, <-chan zk.Event,
		error) {
		return ensemble.WatchOrAwait(ctx, session, s.znode(at), session.WatchData)
	}
	tell := campaign.OnChange(func(now, before ensemble.Node) bool {
		if now.Stat == nil || before.Stat == nil {
			return now.Stat == before.Stat
		}
		return now.Stat.Czxid == before.Stat.Czxid && now.Stat.Version == before.Stat.Version
	}, func(n ensemble.Node) error { return each(document(at, n)) })
	return ensemble.Follow(ctx, s.client, "the document "+at, read, tell)
}
