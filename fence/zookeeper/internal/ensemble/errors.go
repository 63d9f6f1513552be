package ensemble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// Why a session is over.
var (
	errExpired = errors.New("the ZooKeeper session has expired")
	errBroken  = errors.New("the connection to ZooKeeper broke")
	ErrEnded   = errors.New("the ZooKeeper session was closed")
)

// ErrSlow is why a call stopped waiting for a reply.
var ErrSlow = errors.New("a server has not replied in time")

// Unanswered reports that a request had no reply: it may or may not have been carried out.
func Unanswered(err error) bool {
	for _, e := range []error{ErrSlow, zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing,
		zk.ErrSessionMoved, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, isNet := errors.AsType[net.Error](err)
	return isNet || SessionOver(err)
}

// SessionOver reports that the session has ended.
func SessionOver(err error) bool {
	return errors.Is(err, zk.ErrSessionExpired) ||
		errors.Is(err, errExpired) || errors.Is(err, errBroken) || errors.Is(err, ErrEnded)
}

// Denied reports that the ensemble denies this user access.
func Denied(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) ||
		errors.Is(err, zk.ErrInvalidACL)
}

// Explain explains an error of denied access to a path. It returns other errors unchanged.
func (c *Client) Explain(path string, err error) error {
	switch {
	case !Denied(err):
		return err
	case c.User == "":
		return fmt.Errorf("ZooKeeper at %s refuses %s to a client without credentials: "+
			"the znodes belong to a user; "+
			"name it in the URL, zk://user:password@…: %w", c.Where, path, err)
	default:
		return fmt.Errorf("ZooKeeper at %s refuses %s to user %q: "+
			"is the password right, and did this user make the znodes? %w",
			c.Where, path, c.User, err)
	}
}

// noteFailure remembers why there was no answer, for a later message; nil: there was one. It
// ignores errors that only say that a wait has ended.
func (c *Client) noteFailure(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		SessionOver(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
}

// lastFailure returns why there was no answer, or nil if the last request was answered.
func (c *Client) lastFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// unreachable is the error of a call that had no answer. It says whether ctx ended or the request
// timeout passed, and the last failure.
func (c *Client) unreachable(ctx context.Context) error {
	if cause := context.Cause(c.Context()); cause != nil {
		return cause
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("ZooKeeper at %s has not answered yet: %w%s", c.Where, cause,
			because(c.lastFailure()))
	}
	return c.noAnswer(c.lastFailure())
}

func (c *Client) noAnswer(last error) error {
	return fmt.Errorf("%w: ZooKeeper at %s has not answered within %v: is it running, is the port "+
		"right?%s",
		campaign.ErrUnreachable, c.Where, c.RequestTimeout(), because(last))
}

func because(last error) string {
	if last == nil {
		return ""
	}
	// Linux has EPIPE for a connection that was closed before connect returned.
	if errors.Is(last, io.EOF) || errors.Is(last, syscall.ECONNRESET) ||
		errors.Is(last, syscall.EPIPE) {
		return fmt.Sprintf(" (last failure: %v: the server has closed the connection. It does so to a "+
			"host that has maxClientCnxns of them, and after a request above its jute.maxbuffer)", last)
	}
	return fmt.Sprintf(" (last failure: %v)", last)
}
