package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// Errors of Write, in addition to refusals and ensemble.ErrUnreachable.
var (
	// errVersion: the stored version is not the one before the new one. Nothing was changed.
	errVersion = errors.New("the document has another version")
	// errTooLarge: the data is above the limit. Nothing was sent.
	errTooLarge = errors.New("the document is too large")
)

// largeRequest is a size from which on a server's limit may be the reason for a lost answer.
const largeRequest = 64 << 10

// Write creates a document (version 1) or overwrites it, only if the claim leads and the stored
// version is the one before doc.Version. The document is durable when Write returns nil. After any
// error but ensemble.ErrUnanswered nothing was written. Refusals are those of Confirm.
func (d *documents) Write(ctx context.Context, c fence.Claim, doc document) error {
	at, err := d.path(doc.Name)
	if err != nil {
		return err
	}
	if err := d.writable(doc); err != nil {
		return err
	}
	znode, err := d.candidate(ctx, c)
	if err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		results, err := ensemble.Transact(ctx, d.client, ensemble.CheckExists(znode), d.change(at, doc))
		switch {
		case len(results) < 2:
			return d.lost(doc, err)
		case err == nil:
			return nil
		case errors.Is(results[0].Error, zk.ErrNoNode):
			return d.gone(ctx, c)
		// There was no document of this kind yet.
		case doc.Version == 1 && tries == 0 && errors.Is(err, zk.ErrNoNode):
			_, err := ensemble.Ask(ctx, d.client,
				func(ctx context.Context, s *ensemble.Session) (any, error) {
					return nil, s.Ensure(ctx, d.dir)
				})
			if err != nil {
				return err
			}
		default:
			return d.unwritten(at, doc, err)
		}
	}
}

// writable checks what it can without the ensemble.
func (d *documents) writable(doc document) error {
	switch {
	case len(doc.Data) > d.limit:
		return fmt.Errorf("%w: %s has %d bytes, the limit is %d; nothing was written", errTooLarge,
			doc.Name, len(doc.Data), d.limit)
	case doc.Version < 1:
		return fmt.Errorf("%w: the first version of %s is 1, not %d; nothing was written",
			errVersion, doc.Name, doc.Version)
	case doc.Version > maxVersions:
		return fmt.Errorf("%s was written %d times, which is as far as ZooKeeper counts; "+
			"nothing was written: delete the znode and create it again", doc.Name, int64(maxVersions))
	}
	return nil
}

// change is the part of the transaction that writes.
func (d *documents) change(at string, doc document) any {
	if doc.Version == 1 {
		return &zk.CreateRequest{Path: at, Data: doc.Data, Acl: d.client.ACL(), Flags: zk.FlagPersistent}
	}
	return &zk.SetDataRequest{Path: at, Data: doc.Data, Version: int32(doc.Version - 2)}
}

// lost explains a write without results.
func (d *documents) lost(doc document, err error) error {
	if errors.Is(err, ensemble.ErrUnanswered) && len(doc.Data) > largeRequest {
		return fmt.Errorf("%w (%s has %d bytes: a server whose jute.maxbuffer is smaller than "+
			"that breaks the connection)", err, doc.Name, len(doc.Data))
	}
	return d.client.Explain(d.dir, err)
}

// unwritten translates a definite answer that nothing was written.
func (d *documents) unwritten(at string, doc document, err error) error {
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) ||
		errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: version %d of %s cannot follow it; nothing was changed", errVersion,
			doc.Version, doc.Name)
	}
	return d.client.Explain(at, err)
}
