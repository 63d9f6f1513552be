package guard

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/marks"
)

// Alive tells a relay whether its session still lives, for a client that does not read: while a write to it is stuck,
// the end of the server's side is not seen. The zero value waits as long as the client likes.
type Alive struct {
	Ask   func(context.Context) (bool, error) // an error tells nothing, and the relay goes on
	Stall time.Duration                       // how long a write may make no progress before it is asked; 5 s when zero
}

// Looker is a store that can tell whether a session still lives.
type Looker interface {
	Alive(ctx context.Context, s marks.Session) (bool, error)
}

// Look asks a store about one session. The Looker may be nil.
func Look(l Looker, s marks.Session, stall time.Duration) Alive {
	if l == nil {
		return Alive{}
	}
	return Alive{Ask: func(ctx context.Context) (bool, error) { return l.Alive(ctx, s) }, Stall: stall}
}

// askTime bounds one question.
const askTime = 5 * time.Second

// patient writes to a client that may be slow to read.
type patient struct {
	ctx   context.Context
	conn  net.Conn
	alive Alive

	until time.Time   // the deadline that is set
	left  atomic.Bool // the client has sent its last
}

// Write ends with Stuck when no byte goes out and the session has ended.
func (p *patient) Write(b []byte) (n int, err error) {
	for {
		p.extend()
		m, err := p.conn.Write(b[n:])
		n += m
		switch {
		case err == nil, !errors.Is(err, os.ErrDeadlineExceeded), p.ctx.Err() != nil, p.left.Load():
			return n, err
		case m == 0 && p.gone():
			return n, Stuck
		}
	}
}

// extend moves the deadline when half of it is used up, so that most writes do not pay for that.
func (p *patient) extend() {
	stall := p.stall()
	if p.alive.Ask == nil || time.Until(p.until) > stall/2 {
		return
	}
	p.until = time.Now().Add(stall)
	_ = p.conn.SetWriteDeadline(p.until)
	if p.ctx.Err() != nil {
		_ = p.conn.SetWriteDeadline(Past) // the one that the end of ctx has set may have been before ours
	}
	if p.left.Load() {
		_ = p.conn.SetWriteDeadline(time.Now().Add(Linger))
	}
}

func (p *patient) stall() time.Duration {
	if p.alive.Stall == 0 {
		return 5 * time.Second
	}
	return p.alive.Stall
}

func (p *patient) gone() bool {
	ctx, cancel := context.WithTimeout(p.ctx, askTime)
	defer cancel()
	alive, err := p.alive.Ask(ctx)
	return err == nil && !alive
}

// linger is told when the client has sent its last: what it still gets has to go out soon.
func (p *patient) linger() {
	p.left.Store(true)
	_ = p.conn.SetWriteDeadline(time.Now().Add(Linger))
	if p.ctx.Err() != nil {
		_ = p.conn.SetWriteDeadline(Past)
	}
}
