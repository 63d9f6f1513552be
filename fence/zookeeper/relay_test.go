package zookeeper

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay stands between one client and a server. It passes frame by frame, so that it can hold traffic back, lose a
// reply, and learn the sessions that pass.
type relay struct {
	t        testing.TB
	listener net.Listener
	server   string
	work     sync.WaitGroup

	mu        sync.Mutex
	open      *sync.Cond
	cut       bool
	closed    bool
	loseReply bool
	loseWrite bool // the reply to the next transaction
	mute      bool // no notice of a watch passes
	held      int  // frames and connections that wait for pass
	between   bool // after the next transaction requests wait for pass, and its reply does not
	stopAfter int  // after so many more requests the others wait for pass, and no reply does
	stopped   bool // they do
	swallow   bool // transactions do not pass, everything else does
	forgetful bool // the next client to connect again is greeted as a new one
	twin      bool // the next enrolment creates a second candidate in the same transaction
	conns     map[net.Conn]bool
	sessions  [][]byte // greetings of the server, which hold session id and password
	requests  map[uint32]int
}

func newRelay(t testing.TB, server string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, listener: listener, server: server, conns: map[net.Conn]bool{}, requests: map[uint32]int{}}
	r.open = sync.NewCond(&r.mu)
	r.work.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.open.Broadcast()
	r.mu.Unlock()
	r.listener.Close()
	r.dropAll()
	r.work.Wait()
}

// dropAll breaks every connection.
func (r *relay) dropAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

// hold lets nothing through until pass.
func (r *relay) hold() { r.set(func() { r.cut = true }) }
func (r *relay) pass() { r.set(func() { r.cut, r.stopped = false, false }) }

// loseNextEnrolment passes the next create of a candidate on and breaks the connection instead of passing its reply.
func (r *relay) loseNextEnrolment() { r.set(func() { r.loseReply = true }) }

func (r *relay) set(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
	r.open.Broadcast()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.serve(client) })
	}
}

func (r *relay) serve(client net.Conn) {
	defer r.keep(client)()
	if !r.waitOpen() {
		return
	}
	server, err := net.DialTimeout("tcp", r.server, 5*time.Second)
	if err != nil {
		return
	}
	defer r.keep(server)()
	e := exchange{make(chan struct{}, 1), make(chan uint32, 1)}
	var both sync.WaitGroup
	both.Go(func() { r.pump(client, server, e, true) })
	both.Go(func() { r.pump(server, client, e, false) })
	both.Wait()
}

// keep notes a connection for dropAll, and returns what closes it.
func (r *relay) keep(c net.Conn) (closeIt func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		c.Close()
	}
	r.conns[c] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, c)
		c.Close()
	}
}

// exchange is what the requests of a connection tell its replies.
type exchange struct {
	lose chan struct{} // the next reply gets lost
	twin chan uint32   // the request with this number was made two
}

func (r *relay) pump(from, to net.Conn, e exchange, requests bool) {
	defer from.Close()
	defer to.Close()
	for first := true; ; first = false {
		frame, err := readFrame(from)
		if err != nil || !r.waitOpen() || requests && !r.waitGoOn() {
			return
		}
		switch {
		case requests && first:
			r.forget(frame)
		case requests && r.swallowed(frame):
			continue
		case requests:
			r.note(frame, e.lose)
			frame = r.twinned(frame, e.twin)
		case !requests && first:
			r.set(func() { r.sessions = append(r.sessions, frame) })
		case !requests && r.muted(frame):
			continue
		case !requests && len(e.lose) > 0 && int32(binary.BigEndian.Uint32(frame[4:])) >= 0: // a reply, not a ping's
			return
		case !requests:
			frame = untwinned(frame, e.twin)
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// forget makes the server give a new session to a client that wants its old one back, as servers do that only speak
// ZooKeeper's protocol.
func (r *relay) forget(connect []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forgetful {
		r.forgetful = false
		clear(connect[4+4+8+4:][:8])
		clear(connect[4+4+8+4+8+4:])
	}
}

// note counts requests by their operation, and sees the enrolment whose reply shall get lost.
func (r *relay) note(frame []byte, lose chan struct{}) {
	const create, multi = 1, 14
	operation := binary.BigEndian.Uint32(frame[8:])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[operation]++
	if r.loseReply && operation == create && bytes.Contains(frame, []byte("/"+candidatePrefix)) {
		r.loseReply = false
		lose <- struct{}{}
	}
	if r.between && operation == multi {
		r.between, r.stopped = false, true
	}
	const ping = 11
	if r.stopAfter > 0 && operation != ping {
		r.stopAfter--
		r.stopped = r.stopAfter == 0
	}
	if r.loseWrite && operation == multi {
		r.loseWrite = false
		lose <- struct{}{}
	}
}

func (r *relay) swallowed(frame []byte) bool {
	const multi = 14
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.swallow && binary.BigEndian.Uint32(frame[8:]) == multi
}

// muted tells whether a frame of the server's is a notice that must not pass.
func (r *relay) muted(frame []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mute && int32(binary.BigEndian.Uint32(frame[4:])) == -1
}

// waitOpen returns false when the relay is closed.
func (r *relay) waitOpen() bool { return r.waitWhile(&r.cut) }

// waitGoOn is waitOpen for requests.
func (r *relay) waitGoOn() bool { return r.waitWhile(&r.stopped) }

func (r *relay) waitWhile(closed *bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held++
	for *closed && !r.closed {
		r.open.Wait()
	}
	r.held--
	return !r.closed
}

// expireSessions closes every session that has passed, from another connection, as only somebody with its password
// can. Traffic is held meanwhile: a client that comes back would push the other connection out.
func (r *relay) expireSessions() {
	r.t.Helper()
	r.hold()
	defer r.pass()
	r.mu.Lock()
	sessions := r.sessions
	r.sessions = nil
	r.mu.Unlock()
	for _, greeting := range sessions {
		if err := closeSession(r.server, greeting); err != nil {
			r.t.Errorf("close a session: %v", err)
		}
	}
}

func closeSession(server string, greeting []byte) error {
	c, err := net.DialTimeout("tcp", server, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	body := greeting[4:]
	request := binary.BigEndian.AppendUint32(nil, 0)    // protocol
	request = binary.BigEndian.AppendUint64(request, 0) // last zxid
	request = append(request, body[4:8]...)             // timeout
	request = append(request, body[8:16]...)            // session
	request = append(request, body[16:16+4+16]...)      // password with its length
	if _, err := c.Write(withLength(request)); err != nil {
		return err
	}
	if _, err := readFrame(c); err != nil {
		return err
	}
	const closeOperation = 0xfffffff5 // -11
	request = binary.BigEndian.AppendUint32(nil, 1)
	request = binary.BigEndian.AppendUint32(request, closeOperation)
	if _, err := c.Write(withLength(request)); err != nil {
		return err
	}
	_, err = readFrame(c)
	if err != nil {
		return nil // it had ended before
	}
	return nil
}

func withLength(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func splitHosts(s string) []string { return strings.Split(s, ",") }
