package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-zookeeper/zk"
)

// ErrUnreachable is returned when no server of the ensemble has answered in time.
var ErrUnreachable = errors.New("ZooKeeper did not answer")

// Why a session is over.
var (
	errExpired = errors.New("the ZooKeeper session has expired")
	errBroken  = errors.New("the connection to ZooKeeper broke")
	errEnded   = errors.New("the ZooKeeper session was closed")
)

// errSlow ends the wait for a reply.
var errSlow = errors.New("a server has not replied in time")

// errGone: the own candidate is not there any more, or not ours.
var errGone = errors.New("the candidate's znode was deleted")

// unanswered reports that a request had no reply: it may or may not have been carried out.
func unanswered(err error) bool {
	for _, e := range []error{errSlow, zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionMoved, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, isNet := errors.AsType[net.Error](err)
	return isNet || over(err)
}

// over reports that the session has ended.
func over(err error) bool {
	return errors.Is(err, zk.ErrSessionExpired) ||
		errors.Is(err, errExpired) || errors.Is(err, errBroken) || errors.Is(err, errEnded)
}

// refused reports an error that retrying cannot fix.
func refused(err error) bool {
	return denied(err) || errors.Is(err, errNotIssuer) || errors.Is(err, errShared)
}

// denied reports that the ensemble does not let this user do it.
func denied(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL)
}

// explain says what a refusal at a path means. Other errors keep their text.
func (c *Coordinator) explain(path string, err error) error {
	switch {
	case !denied(err):
		return err
	case c.address.user == "":
		return fmt.Errorf("ZooKeeper at %s refuses %s to a client without credentials: the znodes belong to a user; "+
			"name it in the URL, zk://user:password@…: %w", c.hosts(), path, err)
	default:
		return fmt.Errorf("ZooKeeper at %s refuses %s to user %q: is the password right, and did this user make the znodes? %w",
			c.hosts(), path, c.address.user, err)
	}
}

// failed notes why there was no answer, for a message later on. The end of a wait is no reason.
func (c *Coordinator) failed(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || over(err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
}

// answered forgets the failure.
func (c *Coordinator) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = nil
}

func (c *Coordinator) lastFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// unreachable is the error of a call that had no answer: ctx's cause, or that the patience is up, and the last failure.
func (c *Coordinator) unreachable(ctx context.Context) error {
	last := c.lastFailure()
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("ZooKeeper at %s has not answered yet: %w%s", c.hosts(), cause, because(last))
	}
	return c.noAnswer(last)
}

// noAnswer matches ErrUnreachable.
func (c *Coordinator) noAnswer(last error) error {
	return &noAnswer{fmt.Sprintf("ZooKeeper at %s did not answer within %v: is it running, is the port right?%s",
		c.hosts(), c.patience(), because(last))}
}

type noAnswer struct{ text string }

func (e *noAnswer) Error() string { return e.text }

// Is matches the sentinel.
func (e *noAnswer) Is(target error) bool { return target == ErrUnreachable }

func because(last error) string {
	if last == nil {
		return ""
	}
	return fmt.Sprintf(" (last failure: %v)", last)
}
