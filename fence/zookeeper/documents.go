package zookeeper

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/fence"
)

// Documents are persistent znodes beside the elections, <root>/<kind>/<name>, that only leaders write: each write is one
// transaction with the check that the leader's own candidate is still there. See the package documentation for why that
// is a fence. Its methods may be called from any goroutine.
type Documents struct {
	c   *Coordinator
	dir string

	mu      sync.Mutex
	leading map[fence.Resource]leading // the last claim that was seen to lead
}

// Document is one of Documents.
type Document struct {
	Name string
	Data []byte
	// Version is 0 when there is no such document, 1 when it is made, and one more with each write, whoever wrote it: it
	// is the znode's own dataVersion, plus 1.
	Version int64
}

// Versions is how many versions a document can have: ZooKeeper counts them in an int32.
const Versions = 1 << 31

// Documents are those of one kind, which names their parent znode. It is made with the first of them.
func (c *Coordinator) Documents(kind string) *Documents {
	return &Documents{c: c, dir: path.Join(c.address.root, kind), leading: map[fence.Resource]leading{}}
}

// path of a document.
func (d *Documents) path(name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") || strings.ContainsFunc(name, badInName) {
		return "", fmt.Errorf("%q cannot name a znode", name)
	}
	return path.Join(d.dir, name), nil
}

// Names lists the documents there are, in no order. It is as fresh as Candidates.
func (d *Documents) Names(ctx context.Context) ([]string, error) {
	return observe(ctx, d.c, func(ctx context.Context, s *session) ([]string, error) {
		if err := s.sync(ctx, d.c.address.root); err != nil {
			return nil, err
		}
		names, _, err := s.childrenOf(ctx, d.dir)
		return names, err
	})
}

// Read reads a document without a claim. It is as fresh as Candidates.
func (d *Documents) Read(ctx context.Context, name string) (Document, error) {
	at, err := d.path(name)
	if err != nil {
		return Document{}, err
	}
	return observe(ctx, d.c, func(ctx context.Context, s *session) (Document, error) {
		if err := s.sync(ctx, d.c.address.root); err != nil {
			return Document{}, err
		}
		return s.document(ctx, at)
	})
}

// Take reads a document under the claim. It is the last that any older leader wrote: once Take has returned, none of
// them writes any more. When its version is have, the data is not sent: the Document has none, and same is true.
func (d *Documents) Take(ctx context.Context, c fence.Claim, name string, have int64) (doc Document, same bool, err error) {
	at, err := d.path(name)
	if err != nil {
		return Document{}, false, err
	}
	doc, err = observe(ctx, d.c, func(ctx context.Context, s *session) (Document, error) {
		candidate, err := d.confirm(ctx, s, c)
		if err != nil {
			return Document{}, err
		}
		doc, err := s.documentUnless(ctx, at, have)
		if err != nil {
			return Document{}, err
		}
		return doc, d.stillThere(ctx, s, c, candidate) // so the claim led when the document was read
	})
	return doc, err == nil && doc.Version == have, err
}
