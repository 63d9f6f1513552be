package ensemble

import (
	"context"
	"sync"
)

// current is the client's own session, which all of its calls share. It lasts for one connection.
// So host names are resolved again for the next one, no watch has to be set again, and nothing is
// cached of an ensemble that was wiped.
type current struct {
	// changing is held while the session changes. It is a channel, so that waiting for it can end
	// with a context.
	changing chan struct{}

	mu      sync.Mutex
	session *Session
}

// session returns the client's session. It opens one if there is none.
func (c *Client) session(ctx context.Context) (*Session, error) {
	select {
	case c.current.changing <- struct{}{}:
		defer func() { <-c.current.changing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s := c.Current(); s != nil || c.Context().Err() != nil { // after Close, open none
		return s, context.Cause(c.Context())
	}
	s, err := c.openSession(ctx, false)
	if err != nil {
		return nil, err
	}
	c.current.mu.Lock()
	c.current.session = s
	c.current.mu.Unlock()
	return s, nil
}

// Current returns the client's session, or nil if none is open.
func (c *Client) Current() *Session {
	c.current.mu.Lock()
	defer c.current.mu.Unlock()
	return c.current.session
}

// Drop closes the session, which did not answer, if it is the client's own. The next call opens
// another.
func (c *Client) Drop(s *Session) {
	c.current.mu.Lock()
	mine := c.current.session == s
	if mine {
		c.current.session = nil
	}
	c.current.mu.Unlock()
	if mine && !c.TryGo(s.Close) {
		s.Close()
	}
}

func (c *Client) closeCurrent() {
	c.current.changing <- struct{}{} // opening a session ends now, because the Frame has ended
	defer func() { <-c.current.changing }()
	c.current.mu.Lock()
	s := c.current.session
	c.current.session = nil
	c.current.mu.Unlock()
	if s != nil {
		s.Close()
	}
}
