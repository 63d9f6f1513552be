package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/internal/ensemble"
)

// version returns the version of a document from its znode's stat.
func version(stat *zk.Stat) int64 { return int64(stat.Version) + 1 }

// readDocument reads a document; its Version is 0 if there is none.
func readDocument(ctx context.Context, s *ensemble.Session, at string) (document, error) {
	n, err := s.Get(ctx, at)
	return asDocument(s.Client(), at, n, err)
}

// readDocumentUnless reads a document, without its data if its version is have.
func readDocumentUnless(
	ctx context.Context, s *ensemble.Session, at string, have int64,
) (document, error) {
	if have > 0 {
		stat, err := s.Stat(ctx, at)
		switch {
		case err != nil:
			return document{}, s.Client().Explain(at, err)
		case stat != nil && version(stat) == have:
			return document{Name: path.Base(at), Version: have, Created: stat.Czxid}, nil
		}
	}
	return readDocument(ctx, s, at)
}

// asDocument turns the result of reading a znode into a document.
func asDocument(c *ensemble.Client, at string, n ensemble.Node, err error) (document, error) {
	doc := document{Name: path.Base(at)}
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return doc, nil
	case err != nil:
		return doc, c.Explain(at, err)
	}
	doc.Data, doc.Version, doc.Created = n.Data, version(n.Stat), n.Stat.Czxid
	return doc, nil
}
