package zookeeper

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// documents are persistent znodes next to the elections, <root>/<kind>/<name>. Only leaders write
// them: each write is one transaction that also checks that the leader's candidate exists. The
// package documentation says why that is a fence. Methods may be called from any goroutine.
type documents struct {
	client  *ensemble.Client
	leading *election.Leading
	dir     string
	limit   int // bytes of data
}

// document is a named znode of documents.
type document struct {
	Name string
	Data []byte
	// Version is the znode's dataVersion plus 1: 0 if there is no such document, 1 after it was
	// created, and one more after each write of anybody.
	Version int64
	// Created is the znode's czxid; 0 if there is no such document. A document that was deleted and
	// created again has another one.
	Created int64
}

// maxVersions is the maximum version: ZooKeeper counts in an int32.
const maxVersions = 1 << 31

// newDocuments returns the documents of one kind. kind names their parent znode, which the first
// write creates.
func newDocuments(c *ensemble.Client, kind string, limit int) *documents {
	return &documents{client: c, leading: election.NewLeading(c), dir: path.Join(c.Root(), kind),
		limit: limit}
}

// path returns the path of a document's znode.
func (d *documents) path(name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") ||
		strings.ContainsFunc(name, ensemble.BadInName) {
		return "", fmt.Errorf("%q cannot name a znode", name)
	}
	return path.Join(d.dir, name), nil
}

// Names lists the existing documents, in no order, as the ensemble's leader knows them.
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

// Read reads a document without a claim, as the ensemble's leader knows it.
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

// Take reads a document under the claim. After it has returned, no older leader writes any more. If
// the version is have, same is true and the document comes without its data.
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
		znode, err := d.leading.Confirm(ctx, s, c)
		if err != nil {
			return document{}, err
		}
		doc, err := readDocumentUnless(ctx, s, at, have)
		if err != nil {
			return document{}, err
		}
		return doc, d.stillThere(ctx, s, c, znode) // proves that the claim led during the read
	})
	return doc, err == nil && doc.Version == have, err
}
