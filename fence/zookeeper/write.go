package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// What Write can answer, besides refusals and ErrUnreachable.
var (
	// ErrVersion: the stored version is not the one before the written. Nothing was changed.
	ErrVersion = errors.New("the document has another version")
	// ErrTooLarge: the data is above Options.DocumentLimit. Nothing was sent.
	ErrTooLarge = errors.New("the document is too large")
	// ErrUnanswered: the answer was lost or did not come in time. The document may have been written, or may be yet, for
	// as long as the claim leads and nobody has written another one.
	ErrUnanswered = errors.New("ZooKeeper's answer was lost; the document may have been written")
)

// largeRequest is a size that some servers are set to refuse.
const largeRequest = 64 << 10

// Write makes a document (version 1) or writes it anew: only if the claim leads, and only if what is stored has the
// version before doc.Version. It is durable when Write returns nil. After any error but ErrUnanswered nothing was
// written; refusals are those of Confirm.
func (d *Documents) Write(ctx context.Context, c fence.Claim, doc Document) error {
	at, err := d.path(doc.Name)
	if err != nil {
		return err
	}
	if err := d.writable(doc); err != nil {
		return err
	}
	candidate, err := observe(ctx, d.c, func(ctx context.Context, s *session) (string, error) { return d.candidate(ctx, s, c) })
	if err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		results, err := d.send(ctx, exists(candidate), d.change(at, doc))
		switch {
		case len(results) < 2:
			return d.lost(doc, err)
		case err == nil:
			return nil
		case errors.Is(results[0].Error, zk.ErrNoNode):
			_, err := observe(ctx, d.c, func(ctx context.Context, s *session) (any, error) { return nil, d.gone(ctx, s, c) })
			return err
		case doc.Version == 1 && tries == 0 && errors.Is(err, zk.ErrNoNode): // no document of this kind was ever made
			if _, err := observe(ctx, d.c, func(ctx context.Context, s *session) (any, error) { return nil, s.ensure(ctx, d.dir) }); err != nil {
				return err
			}
		default:
			return d.unwritten(at, doc, err)
		}
	}
}

// writable checks what needs no look at the ensemble.
func (d *Documents) writable(doc Document) error {
	switch {
	case len(doc.Data) > d.c.documentLimit:
		return fmt.Errorf("%w: %s has %d bytes, the limit is %d; nothing was written", ErrTooLarge, doc.Name, len(doc.Data), d.c.documentLimit)
	case doc.Version < 1:
		return fmt.Errorf("%w: the first version of %s is 1, not %d; nothing was written", ErrVersion, doc.Name, doc.Version)
	case doc.Version > Versions:
		return fmt.Errorf("%s was written %d times, which is as far as ZooKeeper counts; nothing was written: delete the znode and make it anew", doc.Name, int64(Versions))
	}
	return nil
}

// change is the half of the transaction that writes.
func (d *Documents) change(at string, doc Document) any {
	if doc.Version == 1 {
		return &zk.CreateRequest{Path: at, Data: doc.Data, Acl: d.c.acl, Flags: zk.FlagPersistent}
	}
	return &zk.SetDataRequest{Path: at, Data: doc.Data, Version: int32(doc.Version - 2)}
}

// send hands a transaction over once. No results: it was not sent, and the error is not ErrUnanswered; or it was, and
// the error is.
func (d *Documents) send(ctx context.Context, ops ...any) (results []zk.MultiResponse, answer error) {
	_, err := observe(ctx, d.c, func(_ context.Context, s *session) (any, error) {
		if _, _, cause := s.state(); cause != nil {
			return nil, cause // look again, with another session
		}
		results, answer = s.transact(ctx, ops)
		return nil, nil // and never again, whatever became of it
	})
	if err != nil {
		return nil, err
	}
	return results, answer
}

// transact waits for the answer as long as the caller and the patience do.
func (s *session) transact(caller context.Context, ops []any) ([]zk.MultiResponse, error) {
	ctx, stop := s.c.until(caller)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.patience(), errSlow)
	defer cancel()
	results, err := do(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
	if unanswered(err) && caller.Err() == nil { // the session may not know yet that its connection broke
		s.c.blink(s)
	}
	if len(results) < len(ops) && !refused(err) {
		return nil, fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return results, err
}

// lost says more about a write without results.
func (d *Documents) lost(doc Document, err error) error {
	if errors.Is(err, ErrUnanswered) && len(doc.Data) > largeRequest {
		return fmt.Errorf("%w (%s has %d bytes: a server whose jute.maxbuffer is smaller than that breaks the connection)", err, doc.Name, len(doc.Data))
	}
	return d.c.explain(d.dir, err)
}

// unwritten is a definite answer.
func (d *Documents) unwritten(at string, doc Document, err error) error {
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("%w: version %d of %s cannot follow it; nothing was changed", ErrVersion, doc.Version, doc.Name)
	}
	return d.c.explain(at, err)
}
