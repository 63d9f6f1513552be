package markstest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// ModelConn is a session of the model's database.
type ModelConn struct {
	m    *Model
	s    marks.SessionID
	open []string // the values of the open transaction
}

// Connect opens a session.
func (m *Model) Connect() *ModelConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastID++
	c := &ModelConn{m: m, s: marks.SessionID{ID: m.lastID, Run: m.runName()}}
	m.live[c.s] = c
	return c
}

var errGone = errors.New("markstest: the session was ended")

// Session implements Conn.
func (c *ModelConn) Session() marks.SessionID { return c.s }

// Write implements Conn.
func (c *ModelConn) Write(_ context.Context, value string) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.live[c.s] != c {
		return errGone
	}
	c.m.written = append(c.m.written, value)
	return nil
}

// Leave implements Conn.
func (c *ModelConn) Leave(_ context.Context, value string) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.live[c.s] != c {
		return errGone
	}
	c.open = append(c.open, value)
	return nil
}

// Close implements Conn.
func (c *ModelConn) Close() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.live[c.s] == c {
		c.m.kill(c.s)
	}
}

// Fixture returns the model as a store under test.
func (m *Model) Fixture() Fixture {
	return Fixture{
		Store: m, Admin: m,
		Connect: func(testing.TB) Conn { return m.Connect() },
		Written: func(testing.TB) []string {
			m.mu.Lock()
			defer m.mu.Unlock()
			return slices.Clone(m.written)
		},
		Audit: func(_ testing.TB, r fence.Resource) []Adoption {
			m.mu.Lock()
			defer m.mu.Unlock()
			return slices.Clone(m.audit[r])
		},
		Restart: func(testing.TB) { m.Restart() },
	}
}
