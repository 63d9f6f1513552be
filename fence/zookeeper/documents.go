package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Documents returns the documents in the ensemble: the znodes <root>/documents/<folder>/<name>,
// with ':' for each '/' in the folder's path. The folder is a container, which the ensemble deletes
// some time after its last document. A document's version is its dataVersion plus 1; one that is
// created again begins with 1 again. All documents of a change may have 950,000 bytes together, and
// a folder some 15,000 names of 50 bytes, since a server takes requests and gives answers of 1 MB
// (jute.maxbuffer).
func (c *Coordinator) Documents() documents.Store { return c.documents }

var _ documents.Coordinator = (*Coordinator)(nil)

const (
	// documentsLimit is how many bytes of data a change may have. The default of jute.maxbuffer is
	// 1,048,575.
	documentsLimit = 950_000
	// readsAtOnce is how many documents are read at a time.
	readsAtOnce = 16
)

type store struct {
	client  *ensemble.Client
	leading *election.Leading
}

// dir returns the path of a folder's znode.
func (s *store) dir(folder string) string {
	return s.client.Root() + "/documents/" + strings.ReplaceAll(folder, "/", ":")
}

// znode returns the path of a document's znode.
func (s *store) znode(document string) string {
	folder, name := path.Split(document)
	return s.dir(strings.TrimSuffix(folder, "/")) + "/" + name
}

// version returns the version of a document from its znode's stat.
func version(stat *zk.Stat) int64 { return int64(stat.Version) + 1 }

// Get implements documents.Store. Under terms, a transaction that checks their candidates comes first:
// no earlier read of this session's server can follow it. A sync would not suffice, because a server
// that believes that it still leads the ensemble answers a sync, too. The look at the candidates
// afterwards shows that the terms led during the read.
func (s *store) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if len(r.While)+len(r.Paths) == 0 {
		return nil, nil
	}
	all, err := ensemble.Ask(ctx, s.client, func(
		ctx context.Context, session *ensemble.Session,
	) (all []documents.Document, err error) {
		candidates := make([]string, len(r.While))
		for i, claim := range r.While {
			if candidates[i], err = s.leading.Confirm(ctx, session, claim); err != nil {
				return nil, err
			}
		}
		if len(candidates) == 0 {
			if err := session.Sync(ctx, s.client.Root()); err != nil {
				return nil, err
			}
		}
		if all, err = s.read(ctx, session, r.Paths); err != nil || len(r.Paths) == 0 {
			return nil, err
		}
		for i, at := range candidates {
			if stat, err := session.Stat(ctx, at); err != nil {
				return nil, s.client.Explain(at, err)
			} else if stat == nil {
				return nil, s.leading.Gone(ctx, session, r.While[i])
			}
		}
		return all, nil
	})
	return all, documentError(err)
}

// read reads several documents at a time.
func (s *store) read(
	ctx context.Context, session *ensemble.Session, paths []string,
) ([]documents.Document, error) {
	all := make([]documents.Document, len(paths))
	failed := make([]error, len(paths))
	slots := make(chan struct{}, readsAtOnce)
	var reading sync.WaitGroup
	for i, p := range paths {
		slots <- struct{}{}
		reading.Go(func() {
			defer func() { <-slots }()
			node, err := session.Get(ctx, s.znode(p))
			all[i], failed[i] = s.document(p, node, err)
		})
	}
	reading.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// document makes a document of a znode that was read.
func (s *store) document(p string, n ensemble.Node, err error) (documents.Document, error) {
	if errors.Is(err, zk.ErrNoNode) {
		return documents.Document{Path: p}, nil
	}
	if err != nil || n.Stat == nil {
		return documents.Document{Path: p}, s.client.Explain(s.znode(p), err)
	}
	return documents.Document{Path: p, Data: n.Data, Version: version(n.Stat)}, nil
}

// Names implements documents.Store.
func (s *store) Names(ctx context.Context, folder string) ([]string, error) {
	if err := documents.CheckFolder(folder); err != nil {
		return nil, err
	}
	names, err := ensemble.Ask(ctx, s.client, func(
		ctx context.Context, session *ensemble.Session,
	) ([]string, error) {
		if err := session.Sync(ctx, s.client.Root()); err != nil {
			return nil, err
		}
		names, _, err := session.Children(ctx, s.dir(folder))
		return names, err
	})
	slices.Sort(names)
	return names, documentError(err)
}

// WatchNames implements documents.Store.
func (s *store) WatchNames(
	ctx context.Context, folder string, each func([]string) error,
) error {
	if err := documents.CheckFolder(folder); err != nil {
		return err
	}
	first := true
	var last []string
	read := func(
		ctx context.Context, session *ensemble.Session,
	) ([]string, <-chan zk.Event, error) {
		return s.watchFolder(ctx, session, s.dir(folder))
	}
	return ensemble.Follow(ctx, s.client, "the folder "+folder, read, func(names []string) error {
		if !first && slices.Equal(names, last) {
			return nil
		}
		first, last = false, names
		return each(slices.Clone(names))
	})
}

// watchFolder sets a watch on a folder's names, or on its creation, and reads them.
func (s *store) watchFolder(
	ctx context.Context, session *ensemble.Session, dir string,
) ([]string, <-chan zk.Event, error) {
	if err := session.Sync(ctx, s.client.Root()); err != nil {
		return nil, nil, err
	}
	for {
		names, changed, err := session.WatchChildren(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			var exists bool
			exists, changed, err = session.WatchExistence(ctx, dir)
			if err == nil && exists {
				continue
			}
		}
		slices.Sort(names)
		return names, changed, s.client.Explain(dir, err)
	}
}

// Watch implements documents.Store.
func (s *store) Watch(
	ctx context.Context, at string, each func(documents.Document) error,
) error {
	if err := documents.CheckPath(at); err != nil {
		return err
	}
	first := true
	var last zk.Stat
	read := func(
		ctx context.Context, session *ensemble.Session,
	) (ensemble.Node, <-chan zk.Event, error) {
		return s.watchDocument(ctx, session, s.znode(at))
	}
	return ensemble.Follow(ctx, s.client, "the document "+at, read, func(n ensemble.Node) error {
		var now zk.Stat // of no document
		if n.Stat != nil {
			now = *n.Stat
		}
		if !first && now.Czxid == last.Czxid && now.Version == last.Version {
			return nil
		}
		first, last = false, now
		d, err := s.document(at, n, nil)
		if err != nil {
			return err
		}
		return each(d)
	})
}

// watchDocument sets a watch on a document, or on its creation, and reads it. Stat is nil if there
// is none.
func (s *store) watchDocument(
	ctx context.Context, session *ensemble.Session, at string,
) (ensemble.Node, <-chan zk.Event, error) {
	if err := session.Sync(ctx, s.client.Root()); err != nil {
		return ensemble.Node{}, nil, err
	}
	for {
		n, changed, err := session.WatchData(ctx, at)
		if errors.Is(err, zk.ErrNoNode) {
			var exists bool
			exists, changed, err = session.WatchExistence(ctx, at)
			if err == nil && exists {
				continue
			}
			n = ensemble.Node{}
		}
		return n, changed, s.client.Explain(at, err)
	}
}

// documentError translates an error of a call that has changed nothing.
func documentError(err error) error {
	if errors.Is(err, ensemble.ErrUnreachable) {
		return fmt.Errorf("%w: %w", documents.ErrUnreachable, err)
	}
	return err
}
