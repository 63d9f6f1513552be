package relay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// Liveness tells a relay whether its session still lives. A relay needs it for a client that does
// not read: while a write to that client is stuck, the relay does not see that the server's side
// has ended. With the zero value it waits for the client without a limit.
type Liveness struct {
	// Check asks the store. After an error the relay goes on.
	Check func(context.Context) (bool, error)
	// Stall is how long a write makes no progress before Check is called; 5 s when zero.
	Stall time.Duration
}

// checkTime bounds one check.
const checkTime = 5 * time.Second

type deadlineWriter interface {
	io.Writer
	SetWriteDeadline(time.Time) error
}

// ErrStuck means that the client does not read, and that its session has ended.
var ErrStuck = errors.New("the client does not read, and its session has ended")

// patient writes to a client that may be slow to read.
type patient struct {
	ctx   context.Context
	conn  deadlineWriter
	alive Liveness

	until time.Time   // the present deadline
	left  atomic.Bool // the client has sent its last byte
}

// Write fails with ErrStuck if it makes no progress and the session has ended.
func (p *patient) Write(b []byte) (n int, err error) {
	for {
		p.extend()
		m, err := p.conn.Write(b[n:])
		n += m
		switch {
		case err == nil, !errors.Is(err, os.ErrDeadlineExceeded), p.ctx.Err() != nil, p.left.Load():
			return n, err
		case m == 0 && p.gone():
			return n, ErrStuck
		}
	}
}

// extend moves the deadline once half of it is used up, so that most writes need not set it.
func (p *patient) extend() {
	if p.left.Load() {
		p.linger()
		return
	}
	stall := cmp.Or(p.alive.Stall, 5*time.Second)
	if p.alive.Check == nil || time.Until(p.until) > stall/2 {
		return
	}
	p.until = time.Now().Add(stall)
	p.setDeadline(p.until)
	if p.left.Load() {
		p.linger()
	}
}

func (p *patient) setDeadline(t time.Time) {
	_ = p.conn.SetWriteDeadline(t)
	if p.ctx.Err() != nil {
		_ = p.conn.SetWriteDeadline(Past) // ours may have replaced the one that the end of ctx has set
	}
}

func (p *patient) gone() bool {
	ctx, cancel := context.WithTimeout(p.ctx, checkTime)
	defer cancel()
	alive, err := p.alive.Check(ctx)
	return err == nil && !alive
}

// linger limits the time for each write to a client that has sent its last byte.
func (p *patient) linger() {
	p.left.Store(true)
	p.setDeadline(time.Now().Add(Linger))
}
