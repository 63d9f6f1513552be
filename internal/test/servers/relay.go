package servers

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Relay stands between clients and a server. It passes bytes both ways, and can hold them back,
// break connections, lose an answer, and turn to another server. Its mutex guards what Set changes.
type Relay struct {
	sync.Mutex
	Held   bool // nothing passes; see Hold
	Losing bool // each connection breaks on which the server answers

	listener net.Listener
	dialer   net.Dialer
	serve    func(client, server net.Conn)
	work     sync.WaitGroup
	bytes    atomic.Int64
	sent     atomic.Int64 // pieces that clients have sent

	changed  *sync.Cond
	server   string
	lose     bool // the next answer
	closed   bool
	waiting  int // reads and connections that Wait keeps
	accepted int
	conns    map[net.Conn]bool
}

// RelayOptions are for a relay that does more.
type RelayOptions struct {
	Listener net.Listener // default: a free port of this machine
	// the address from which it connects to the server; default: the system's choice
	From string

	// Serve relays a connection, both ways, until one of them ends. Default: Pump in both directions.
	Serve func(r *Relay, client, server net.Conn)
}

// NewRelay starts a relay to the address of a server. Close ends it.
func NewRelay(server string, o RelayOptions) (*Relay, error) {
	if o.Listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		o.Listener = l
	}
	r := &Relay{server: server, listener: o.Listener, conns: map[net.Conn]bool{}}
	r.dialer.Timeout = 5 * time.Second
	if o.From != "" {
		r.dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(o.From)}
	}
	r.changed = sync.NewCond(r)
	r.serve = r.Pump
	if o.Serve != nil {
		r.serve = func(client, server net.Conn) { o.Serve(r, client, server) }
	}
	r.work.Go(r.accept)
	return r, nil
}

// Addr is where clients connect.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Hold lets nothing through until Pass. Connections of clients wait, too.
func (r *Relay) Hold() { r.Set(func() { r.Held = true }) }

// Pass lets everything through again.
func (r *Relay) Pass() { r.Set(func() { r.Held = false }) }

// Drop breaks every connection.
func (r *Relay) Drop() { r.Set(r.drop) }

// To makes later connections go to another server, and breaks the present ones.
func (r *Relay) To(server string) { r.Set(func() { r.server = server; r.drop() }) }

// Lead makes later connections go to another server. The present ones stay, as where an address
// moves.
func (r *Relay) Lead(server string) { r.Set(func() { r.server = server }) }

// LoseReply breaks the connection on which the server answers next, instead of passing the answer.
func (r *Relay) LoseReply() { r.Set(func() { r.lose = true }) }

// Bytes counts what has come, in both directions.
func (r *Relay) Bytes() int64 { return r.bytes.Load() }

// Sent counts what clients have sent: about one for each request, and for what a protocol sends
// beside them.
func (r *Relay) Sent() int { return int(r.sent.Load()) }

// Accepted returns how many connections clients have made.
func (r *Relay) Accepted() int { r.Lock(); defer r.Unlock(); return r.accepted }

// Holds reports that something waits for Pass.
func (r *Relay) Holds() bool { r.Lock(); defer r.Unlock(); return r.waiting > 0 }

// Close breaks every connection, and waits until all is over.
func (r *Relay) Close() error {
	r.Set(func() { r.closed = true; r.drop() })
	err := r.listener.Close()
	r.work.Wait()
	return err
}

// Set changes something under the lock, and wakes whoever waits for it.
func (r *Relay) Set(do func()) {
	r.Lock()
	defer r.Unlock()
	do()
	r.changed.Broadcast()
}

// drop breaks every connection. The caller holds the lock.
func (r *Relay) drop() {
	for c := range r.conns {
		_ = c.Close()
	}
}

// Wait waits as long as something is true, which the lock guards. It returns false once the relay
// is closed.
func (r *Relay) Wait(while *bool) bool {
	r.Lock()
	defer r.Unlock()
	r.waiting++
	for *while && !r.closed {
		r.changed.Wait()
	}
	r.waiting--
	return !r.closed
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.Set(func() { r.accepted++ })
		r.work.Go(func() { r.connect(client) })
	}
}

func (r *Relay) connect(client net.Conn) {
	defer r.keep(client)()
	if !r.Wait(&r.Held) {
		return
	}
	r.Lock()
	to := r.server
	r.Unlock()
	server, err := r.dialer.Dial("tcp", to)
	if err != nil {
		return
	}
	defer r.keep(server)()
	r.serve(client, server)
}

// keep records a connection for Drop, and returns a function that closes it.
func (r *Relay) keep(c net.Conn) (closeIt func()) {
	r.Lock()
	defer r.Unlock()
	if r.closed {
		_ = c.Close()
	}
	r.conns[c] = true
	return func() {
		r.Lock()
		defer r.Unlock()
		delete(r.conns, c)
		_ = c.Close()
	}
}

// Pump relays a connection until one side ends it, and then ends it on the other.
func (r *Relay) Pump(client, server net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { r.pass(server, client, func() bool { r.sent.Add(1); return false }) })
	both.Go(func() { r.pass(client, server, r.loses) })
	both.Wait()
}

func (r *Relay) pass(to, from net.Conn, loses func() bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		r.bytes.Add(int64(n))
		if n > 0 {
			if !r.Wait(&r.Held) || loses() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// loses reports that this answer is the one to lose.
func (r *Relay) loses() bool {
	r.Lock()
	defer r.Unlock()
	lose := r.lose || r.Losing
	r.lose = false
	return lose
}
