package ensemble

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// ErrUnanswered: the answer to a transaction was lost or did not come in time. The transaction may
// have been carried out, or may be later, while its conditions hold.
var ErrUnanswered = errors.New("ZooKeeper's answer was lost; what was sent may have been written")

// Transact sends a transaction at most once. Znodes that it creates get the session's ACL. If it
// returns no results, the transaction may have been sent (ErrUnanswered), or it was not sent (any
// other error).
func Transact(
	ctx context.Context, c *Client, ops ...any,
) (results []zk.MultiResponse, answer error) {
	_, err := Ask(ctx, c, func(asked context.Context, s *Session) (any, error) {
		if _, _, cause := s.State(); cause != nil {
			return nil, cause // Ask tries again with another session
		}
		results, answer = transact(ctx, s, ops)
		if Denied(answer) && s.outdated(asked) {
			return nil, answer // nothing was written, and Ask tries again with another session
		}
		return nil, nil // no error, so Ask does not send it again
	})
	if err != nil {
		return nil, err
	}
	return results, answer
}

// transact waits for the answer until the caller's context ends or the request times out.
func transact(caller context.Context, s *Session, ops []any) ([]zk.MultiResponse, error) {
	ctx, done, err := s.Client.Begin(caller)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, s.Client.RequestTimeout(), ErrSlow)
	defer cancel()
	for _, op := range ops {
		if create, ok := op.(*zk.CreateRequest); ok {
			create.Acl = s.ACL
		}
	}
	results, err := Do(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ops...)
	})
	// The session may not know yet that its connection broke.
	if Unanswered(err) && caller.Err() == nil {
		s.Client.Drop(s)
	}
	if n := size(ops); n > 10_000 && errors.Is(err, errBroken) {
		err = fmt.Errorf("%w; it had %d bytes of data, and a server closes the connection if a request "+
			"is above its jute.maxbuffer", err, n)
	}
	if len(results) < len(ops) && !Denied(err) {
		return nil, fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return results, err
}

// size is how many bytes of data a transaction has.
func size(ops []any) (n int) {
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			n += len(op.Data)
		case *zk.SetDataRequest:
			n += len(op.Data)
		}
	}
	return n
}
