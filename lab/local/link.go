package local

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab"
)

const (
	chunkSize  = 16 << 10
	queued     = 64 // chunks under way in one direction; then the sender feels it
	dialTime   = 5 * time.Second
	firstRetry = 200 * time.Millisecond // Linux repeats a lost TCP segment no sooner
	mostRetry  = 6
)

// link is a relay of TCP connections to one address, whose Shape acts on open connections too. It belongs to the lab's
// process: the two ends never notice a shape but by what does not arrive.
type link struct {
	listener net.Listener
	all      sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc

	mu      sync.Mutex
	to      string // where new connections lead
	shape   lab.Shape
	changed chan struct{} // closed with the next change of shape
	random  *rand.Rand
}

// newLink makes a link to an address. Close ends it.
func newLink(to string, seed uint64) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &link{
		listener: listener, to: to, ctx: ctx, stop: stop,
		changed: make(chan struct{}), random: rand.New(rand.NewPCG(seed, uint64(listener.Addr().(*net.TCPAddr).Port))),
	}
	l.all.Go(l.accept)
	return l, nil
}

// Addr is where the link takes connections.
func (l *link) Addr() string { return l.listener.Addr().String() }

// Close ends the link and every connection on it; what waits is lost.
func (l *link) Close() error {
	l.stop()
	err := l.listener.Close()
	l.all.Wait()
	return err
}

// Turn makes new connections lead elsewhere.
func (l *link) Turn(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

func (l *link) target() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to
}

// Shape is how the link behaves from now on.
func (l *link) Shape(s lab.Shape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shape = s
	close(l.changed)
	l.changed = make(chan struct{})
}

// until waits for a shape that will do; false: the context ended before.
func (l *link) until(ctx context.Context, will func(lab.Shape) bool) bool {
	for {
		l.mu.Lock()
		s, changed := l.shape, l.changed
		l.mu.Unlock()
		if will(s) {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (l *link) refuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shape.Refuse
}

// late is how much later than sent something arrives: the delay, and a retransmission for each time that it was lost.
func (l *link) late() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	late, retry := l.shape.Delay, firstRetry
	for i := 0; i < mostRetry && l.random.Float64() < l.shape.Loss; i++ {
		late += retry
		retry *= 2
	}
	return late
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.all.Go(func() { l.serve(client.(*net.TCPConn)) })
	}
}

// serve relays one connection until both directions have ended. A connection that cannot be made waits, as if its first
// packet were lost, and never was if the client has given up until then.
func (l *link) serve(client *net.TCPConn) {
	defer client.Close()
	unhook := context.AfterFunc(l.ctx, func() { client.Close() })
	defer unhook()
	var first []byte
	if l.refuses() {
		var alive bool
		if first, alive = l.waiting(client); !alive {
			return
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, dialTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.target())
	if err != nil {
		_ = client.SetLinger(0) // the client sees a reset, which is what a closed port answers
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	unhookServer := context.AfterFunc(l.ctx, func() { server.Close() })
	defer unhookServer()

	var both sync.WaitGroup
	both.Go(func() { l.carry(server, client, first, func(s lab.Shape) bool { return !s.HoldUp }) })
	both.Go(func() { l.carry(client, server, nil, func(s lab.Shape) bool { return !s.HoldDown }) })
	both.Wait()
}

// waiting lets a client wait while the link refuses connections. It gives what the client has sent meanwhile, and false
// when the client has left, or the link was closed.
func (l *link) waiting(client *net.TCPConn) (sent []byte, alive bool) {
	ctx, left := context.WithCancel(l.ctx)
	defer left()
	var reader sync.WaitGroup
	reader.Go(func() {
		var err error
		if sent, err = io.ReadAll(client); !errors.Is(err, os.ErrDeadlineExceeded) {
			left()
		}
	})
	alive = l.until(ctx, func(s lab.Shape) bool { return !s.Refuse })
	_ = client.SetReadDeadline(time.Unix(1, 0)) // the reader ends
	reader.Wait()
	_ = client.SetReadDeadline(time.Time{})
	return sent, alive && ctx.Err() == nil
}

// chunk is what was read at once. Without bytes it is the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time
}

// carry takes one direction to its end. An end of stream, or a connection that broke, travels as bytes do: it is held,
// late and in order. Once nobody takes this direction any more, nothing is read for it.
func (l *link) carry(to, from *net.TCPConn, first []byte, open func(lab.Shape) bool) {
	under := make(chan chunk, queued)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(under)
		if len(first) > 0 {
			under <- chunk{bytes: first}
		}
		for {
			buf := make([]byte, chunkSize)
			n, err := from.Read(buf)
			if n > 0 {
				under <- chunk{buf[:n], time.Now().Add(l.late())}
			}
			if err != nil {
				under <- chunk{due: time.Now().Add(l.late())}
				return
			}
		}
	})
	defer reader.Wait()
	broken := false
	for c := range under { // to its end in any case: the reader must not wait for ever
		if !broken && l.arrive(c, open) && !deliver(to, c) {
			broken = true
			_ = from.CloseRead()
		}
	}
}

// arrive waits until a chunk may arrive; false: the link was closed before.
func (l *link) arrive(c chunk, open func(lab.Shape) bool) bool {
	if wait := time.Until(c.due); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.ctx.Done():
			return false
		}
	}
	return l.until(l.ctx, open)
}

// deliver tells whether the other side still takes it.
func deliver(to *net.TCPConn, c chunk) bool {
	if len(c.bytes) == 0 {
		_ = to.CloseWrite()
		return false
	}
	_, err := to.Write(c.bytes)
	return err == nil
}
