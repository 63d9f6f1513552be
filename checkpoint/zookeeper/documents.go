package zookeeper

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// documents are persistent znodes beside the elections, <root>/<kind>/<name>, that only leaders
// write: each write is one transaction with the check that the leader's own candidate is still
// there. See the package documentation for why that is a fence. Its methods may be called from any
// goroutine.
type documents struct {
	client  *ensemble.Client
	entries election.Cache
	dir     string
	limit   int // bytes of data

	mu      sync.Mutex
	leading map[fence.Resource]leading // the last claim that was seen to lead
}

// document is one of documents.
type document struct {
	Name string
	Data []byte
	// Version is 0 when there is no such document, 1 when it is made, and one more with each write,
	// whoever wrote it: it is the znode's own dataVersion, plus 1.
	Version int64
}

// maxVersions is how many versions a document can have: ZooKeeper counts them in an int32.
const maxVersions = 1 << 31

// newDocuments returns those of one kind, which names their parent znode. It is made with the first
// of them.
func newDocuments(c *ensemble.Client, kind string, limit int) *documents {
	return &documents{client: c, dir: path.Join(c.Root(), kind), limit: limit,
		leading: map[fence.Resource]leading{}}
}

// path of a document.
func (d *documents) path(name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") ||
		strings.ContainsFunc(name, ensemble.BadInName) {
		return "", fmt.Errorf("%q cannot name a znode", name)
	}
	return path.Join(d.dir, name), nil
}

// Names lists the documents there are, in no order. It is as fresh as the ensemble's leader.
func (d *documents) Names(ctx context.Context) ([]string, error) {
	return ensemble.Ask(ctx, d.client, func(
		ctx context.Context, s *ensemble.Session,
	) ([]string, error) {
		if err := s.Sync(ctx, d.client.Root()); err != nil {
			return nil, err
		}
		names, _, err := s.Children(ctx, d.dir)
		return names, err
	})
}

// Read reads a document without a claim. It is as fresh as the ensemble's leader.
func (d *documents) Read(ctx context.Context, name string) (document, error) {
	at, err := d.path(name)
	if err != nil {
		return document{}, err
	}
	return ensemble.Ask(ctx, d.client, func(
		ctx context.Context, s *ensemble.Session,
	) (document, error) {
		if err := s.Sync(ctx, d.client.Root()); err != nil {
			return document{}, err
		}
		return readDocument(ctx, s, at)
	})
}

// Take reads a document under the claim. It is the last that any older leader wrote: once Take has
// returned, none of them writes any more. When its version is have, the data is not sent: the
// document has none, and same is true.
func (d *documents) Take(
	ctx context.Context, c fence.Claim, name string, have int64,
) (doc document, same bool, err error) {
	at, err := d.path(name)
	if err != nil {
		return document{}, false, err
	}
	doc, err = ensemble.Ask(ctx, d.client, func(
		ctx context.Context, s *ensemble.Session,
	) (document, error) {
		znode, err := d.confirm(ctx, s, c)
		if err != nil {
			return document{}, err
		}
		doc, err := readDocumentUnless(ctx, s, at, have)
		if err != nil {
			return document{}, err
		}
		return doc, d.stillThere(ctx, s, c, znode) // so the claim led when the document was read
	})
	return doc, err == nil && doc.Version == have, err
}
