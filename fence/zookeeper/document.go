package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
)

// version of a document whose znode has this stat.
func version(stat *zk.Stat) int64 { return int64(stat.Version) + 1 }

// document reads one; Version 0 when there is none.
func (s *session) document(ctx context.Context, at string) (Document, error) {
	n, err := s.get(ctx, at)
	return s.c.asDocument(at, n, err)
}

// documentUnless leaves the data out when the version is have.
func (s *session) documentUnless(ctx context.Context, at string, have int64) (Document, error) {
	if have > 0 {
		stat, err := s.stat(ctx, at)
		if err != nil || stat != nil && version(stat) == have {
			return Document{Name: path.Base(at), Version: have}, s.c.explain(at, err)
		}
	}
	return s.document(ctx, at)
}

// asDocument is what a read of a znode says about a document.
func (c *Coordinator) asDocument(at string, n node, err error) (Document, error) {
	doc := Document{Name: path.Base(at)}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return doc, nil
	case err != nil:
		return doc, c.explain(at, err)
	}
	doc.Data, doc.Version = n.data, version(n.stat)
	return doc, nil
}

// childrenOf lists the children of a znode, and the transaction that last made or removed one; none when it does not
// exist.
func (s *session) childrenOf(ctx context.Context, at string) (names []string, changed int64, err error) {
	type list struct {
		names []string
		stat  *zk.Stat
	}
	l, err := read(ctx, s, func(conn *zk.Conn) (list, error) {
		names, stat, err := conn.Children(at)
		return list{names, stat}, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, 0, nil
	case err != nil:
		return nil, 0, s.c.explain(at, err)
	}
	return l.names, l.stat.Pzxid, nil
}
