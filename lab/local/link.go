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

	"github.com/ringfence/ringfence/lab/system"
)

const (
	chunkSize  = 16 << 10
	queued     = 64 // chunks in flight in one direction; then the sender blocks
	dialTime   = 5 * time.Second
	firstRetry = 200 * time.Millisecond // Linux waits at least this long to resend a TCP segment
	mostRetry  = 6
)

// Link is a relay of TCP connections to one address. Its Shape also acts on open connections. It
// runs in the lab's process: its ends notice a shape only because data does not arrive.
type Link struct {
	listener net.Listener
	all      sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc

	mu      sync.Mutex
	to      string // where new connections lead
	shape   system.Shape
	open    map[*net.TCPConn]bool // of clients
	changed chan struct{}         // closed with the next change of shape
	random  *rand.Rand
}

// NewLink makes a link to an address. Close ends it.
func NewLink(to string, seed uint64) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	port := uint64(listener.Addr().(*net.TCPAddr).Port)
	l := &Link{
		listener: listener, to: to, ctx: ctx, stop: stop, open: map[*net.TCPConn]bool{},
		changed: make(chan struct{}), random: rand.New(rand.NewPCG(seed, port)),
	}
	l.all.Go(l.accept)
	return l, nil
}

// Addr returns where the link accepts connections.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Close ends the link and every connection on it; held data is lost.
func (l *Link) Close() error {
	l.stop()
	err := l.listener.Close()
	l.all.Wait()
	return err
}

// Turn turns new connections to another address.
func (l *Link) Turn(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

func (l *Link) target() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to
}

// Shape sets how the link behaves from now on.
func (l *Link) Shape(s system.Shape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shape = s
	close(l.changed)
	l.changed = make(chan struct{})
	for client := range l.open {
		if s.Break {
			reset(client)
		}
	}
}

// enter notes an open connection, unless the link breaks them.
func (l *Link) enter(client *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shape.Break {
		return false
	}
	l.open[client] = true
	return true
}

func (l *Link) leave(client *net.TCPConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, client)
}

// reset ends a connection with a reset, which is also what a closed port answers.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// until waits for a suitable shape; false if the context ended before.
func (l *Link) until(ctx context.Context, suits func(system.Shape) bool) bool {
	for {
		l.mu.Lock()
		s, changed := l.shape, l.changed
		l.mu.Unlock()
		if suits(s) {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (l *Link) refuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shape.Refuse
}

func (l *Link) losesEnds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shape.LoseEnds
}

// late returns how much later than sent something arrives: the delay, and a retransmission for each
// loss.
func (l *Link) late() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	late, retry := l.shape.Delay, firstRetry
	for i := 0; i < mostRetry && l.random.Float64() < l.shape.Loss; i++ {
		late += retry
		retry *= 2
	}
	return late
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.all.Go(func() { l.serve(client.(*net.TCPConn)) })
	}
}

// serve relays one connection until both directions have ended. A refused connection waits, as if
// its first packet were lost. It is never made if the client gives up before.
func (l *Link) serve(client *net.TCPConn) {
	defer client.Close()
	if !l.enter(client) {
		reset(client)
		return
	}
	defer l.leave(client)
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
		reset(client)
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	unhookServer := context.AfterFunc(l.ctx, func() { server.Close() })
	defer unhookServer()

	var both sync.WaitGroup
	port := server.LocalAddr().(*net.TCPAddr).Port
	both.Go(func() {
		l.carry(server, client, first, func(s system.Shape) bool { return !s.HoldUp || !s.Of(port) })
	})
	both.Go(func() {
		l.carry(client, server, nil, func(s system.Shape) bool { return !s.HoldDown || !s.Of(port) })
	})
	both.Wait()
}

// waiting makes a client wait while the link refuses connections. It returns what the client has
// sent meanwhile, and false if the client has left or the link was closed.
func (l *Link) waiting(client *net.TCPConn) (sent []byte, alive bool) {
	ctx, left := context.WithCancel(l.ctx)
	defer left()
	var reader sync.WaitGroup
	reader.Go(func() {
		var err error
		if sent, err = io.ReadAll(client); !errors.Is(err, os.ErrDeadlineExceeded) {
			left()
		}
	})
	alive = l.until(ctx, func(s system.Shape) bool { return !s.Refuse })
	_ = client.SetReadDeadline(time.Unix(1, 0)) // the reader ends
	reader.Wait()
	_ = client.SetReadDeadline(time.Time{})
	return sent, alive && ctx.Err() == nil
}

// chunk is data from one read. Without bytes it is the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time
}

// carry relays one direction to its end. The end of a stream or a broken connection travels as
// bytes do: held, late and in order. Once the receiver is gone, carry stops reading.
func (l *Link) carry(to, from *net.TCPConn, first []byte, open func(system.Shape) bool) {
	inFlight := make(chan chunk, queued)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(inFlight)
		if len(first) > 0 {
			inFlight <- chunk{bytes: first}
		}
		for {
			buf := make([]byte, chunkSize)
			n, err := from.Read(buf)
			if n > 0 {
				inFlight <- chunk{buf[:n], time.Now().Add(l.late())}
			}
			if err != nil {
				inFlight <- chunk{due: time.Now().Add(l.late())}
				return
			}
		}
	})
	defer reader.Wait()
	broken := false
	for c := range inFlight { // to its end in any case: the reader must not block for ever
		if !broken && l.arrive(c, open) && !l.deliver(to, c) {
			broken = true
			_ = from.CloseRead()
		}
	}
}

// arrive waits until a chunk may arrive; false if the link was closed before.
func (l *Link) arrive(c chunk, open func(system.Shape) bool) bool {
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

// deliver reports whether the other side still receives.
func (l *Link) deliver(to *net.TCPConn, c chunk) bool {
	if len(c.bytes) == 0 {
		if !l.losesEnds() {
			_ = to.CloseWrite()
		}
		return false
	}
	_, err := to.Write(c.bytes)
	return err == nil
}
