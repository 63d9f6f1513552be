package relay

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// Loops relay sessions with few threads: each waits for many sockets with epoll(7), and moves what
// has come.
type Loops struct {
	all  []*loop
	next atomic.Uint32
	runs sync.WaitGroup
}

// StartLoops starts n loops; one for each processor when n is 0.
func StartLoops(n int) (*Loops, error) {
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	l := &Loops{}
	for range n {
		one, err := newLoop(l)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("starting a relay loop: %w", err)
		}
		l.all = append(l.all, one)
		l.runs.Go(func() { one.run(nil) })
	}
	return l, nil
}

// Close ends the loops. Every relay must have ended, and every socket must be closed.
func (l *Loops) Close() {
	if l == nil {
		return
	}
	for _, one := range l.all {
		one.mu.Lock()
		one.closing = true
		one.mu.Unlock()
		one.ring()
	}
	l.runs.Wait()
	for _, one := range l.all {
		one.closeFiles()
	}
}

// Respond returns nil once every loop has handled an event, and the cause of ctx if one does not
// before ctx ends.
func (l *Loops) Respond(ctx context.Context) error {
	if l == nil {
		return nil
	}
	for i, one := range l.all {
		answered := make(chan struct{})
		one.mu.Lock()
		one.calls = append(one.calls, answered)
		one.mu.Unlock()
		one.ring()
		select {
		case <-answered:
		case <-ctx.Done():
			return fmt.Errorf("relay loop %d of %d does not respond: %w", i+1, len(l.all),
				context.Cause(ctx))
		}
	}
	return nil
}

// Adopt returns two connections that one loop watches, in place of a client's and its server's.
// Each must be a socket, or TLS on a tlsconfig.Transport that stands for one, after the handshake.
// Otherwise Adopt returns the two as they are. Nobody may use them meanwhile. Their deadlines are
// gone.
func (l *Loops) Adopt(client, server net.Conn) (net.Conn, net.Conn) {
	if l == nil || !adoptable(client) || !adoptable(server) {
		return client, server
	}
	one := l.all[l.next.Add(1)%uint32(len(l.all))]
	watched, ok := one.adopt(server).(adopted)
	if !ok {
		return client, server // a client's TLS would be in the loop, and its flows would not
	}
	return one.adopt(client), watched
}

func adoptable(c net.Conn) bool {
	if _, ok := c.(*tls.Conn); ok {
		below := tlsconfig.TransportOf(c)
		return below != nil && plain(below.Conn())
	}
	return plain(c)
}

func plain(c net.Conn) bool {
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// adopt returns c itself if the system refuses, because there are too many open files. Two
// connections that are not in one loop are relayed as any others.
func (l *loop) adopt(c net.Conn) net.Conn {
	above, ok := c.(*tls.Conn)
	if !ok {
		return l.adoptPlain(c)
	}
	below := tlsconfig.TransportOf(c)
	s, ok := l.adoptPlain(below.Conn()).(*socket)
	if !ok {
		return c
	}
	e := &encrypted{Conn: above, socket: s}
	below.Replace(records{s, e})
	return e
}

func (l *loop) adoptPlain(c net.Conn) net.Conn {
	fd, err := descriptor(c.(syscall.Conn))
	if err != nil {
		return c
	}
	_, drains := c.(*net.TCPConn)
	s := &socket{
		loop: l, fd: fd, drains: drains, local: c.LocalAddr(), remote: c.RemoteAddr(),
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1),
	}
	_ = c.Close() // the descriptor stays open, and leaves Go's poller
	if err := l.watch(s); err != nil {
		// There is no way back to Go's poller that could not fail as well.
		_ = unix.Close(fd)
		s.closed = true
	}
	return s
}

// loop is one thread's set of sockets.
type loop struct {
	loops *Loops
	epoll int
	bell  int // an eventfd: it rings when the loop has to end or to answer

	mu      sync.Mutex
	sockets map[uint64]*socket
	last    uint64          // the id that was given out last; none is used twice
	calls   []chan struct{} // closed by the loop, to show that it works
	closing bool

	ready []*flow // have more to read; for the goroutine that runs the loop
}

// bellID is the id of the bell. Sockets count from 1.
const bellID = 0

func newLoop(owner *Loops) (l *loop, err error) {
	l = &loop{loops: owner, epoll: -1, bell: -1, sockets: make(map[uint64]*socket)}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if l.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		l.closeFiles()
		return nil, err
	}
	if err := l.add(l.bell, unix.EPOLLIN, bellID); err != nil {
		l.closeFiles()
		return nil, err
	}
	return l, nil
}

func (l *loop) closeFiles() {
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.bell)
}

func (l *loop) ring() { _, _ = unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// answer handles a ring of the bell. It reports whether the loop has to end.
func (l *loop) answer() (end bool) {
	var rings [8]byte
	_, _ = unix.Read(l.bell, rings[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		close(c)
	}
	l.calls = nil
	return l.closing
}

// add has events of a descriptor carry an id.
func (l *loop) add(fd int, events uint32, id uint64) error {
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: events, Fd: int32(id), Pad: int32(id >> 32)})
}

func idOf(e unix.EpollEvent) uint64 { return uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd)) }

// watch adds a socket. Its events come once each (edge-triggered).
func (l *loop) watch(s *socket) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	s.id = l.last
	const events = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	if err := l.add(s.fd, events, s.id); err != nil {
		return err
	}
	l.sockets[s.id] = s
	return nil
}

// forget removes a socket that is about to be closed.
func (l *loop) forget(s *socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, s.fd, nil)
	delete(l.sockets, s.id)
}

// socket returns the socket of an event; nil for a late one, whose socket is closed.
func (l *loop) socket(id uint64) *socket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sockets[id]
}

// turn is one goroutine's time as the one that runs a loop. A flow that has to wait for a slow peer
// hands the loop over to a new goroutine, and keeps the one that it is in.
type turn struct {
	loop   *loop
	events []unix.EpollEvent // that have come and were not handled yet
	over   bool
}

// handOver starts another goroutine for the loop.
func (t *turn) handOver() {
	if t.over {
		return
	}
	t.over = true
	rest := slices.Clone(t.events)
	t.loop.loops.runs.Go(func() { t.loop.run(rest) })
}

// postpone has the loop advance a flow again after it has handled other events.
func (t *turn) postpone(f *flow) { t.loop.ready = append(t.loop.ready, f) }

// run waits for events and handles them, until the loop is closed or its turn is over.
func (l *loop) run(events []unix.EpollEvent) {
	t := &turn{loop: l, events: events}
	room := make([]unix.EpollEvent, 128)
	for {
		for len(t.events) > 0 {
			e := t.events[0]
			t.events = t.events[1:]
			if idOf(e) == bellID {
				if l.answer() {
					return
				}
				continue
			}
			if s := l.socket(idOf(e)); s != nil {
				s.happened(e.Events, t)
			}
			if t.over {
				return
			}
		}
		if l.runReady(t); t.over {
			return
		}
		t.events = room[:l.wait(room)]
	}
}

// runReady lets each flow that was ready when it began go on.
func (l *loop) runReady(t *turn) {
	for n := len(l.ready); n > 0 && !t.over; n-- {
		f := l.ready[0]
		l.ready = slices.Delete(l.ready, 0, 1)
		f.advance(t)
	}
}

// wait waits for events, if no flow is ready.
func (l *loop) wait(room []unix.EpollEvent) int {
	timeout := -1
	if len(l.ready) > 0 {
		timeout = 0
	}
	for {
		n, err := unix.EpollWait(l.epoll, room, timeout)
		if err == nil {
			return n
		}
		if err != unix.EINTR {
			panic(fmt.Sprintf("relay: epoll_wait: %v", err)) // only a closed descriptor does this
		}
	}
}
