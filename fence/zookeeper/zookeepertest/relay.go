package zookeepertest

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Relay is a relay between one client and a server that passes frame by frame, so that it can lose
// a reply, and learn the sessions.
type Relay struct {
	*servers.Relay
	Server string
	Faults // changed in Set

	t        testing.TB
	sessions [][]byte // greetings of the server, with session id and password
	requests map[uint32]int
}

// Faults are what a Relay does to the traffic.
type Faults struct {
	LoseCreate bool   // break the connection instead of the reply to the next create of a candidate
	CutReply   bool   // pass the next create of a candidate, and then nothing until Pass
	LoseWrite  bool   // break the connection instead of the reply to the next transaction
	Mute       bool   // drop notices of watches
	Between    bool   // after the next transaction, hold requests until Pass; replies pass
	StopAfter  int    // after so many more requests, hold requests until Pass; replies pass
	StopMulti  bool   // hold the next transaction, and the requests after it, until Pass; replies pass
	Stopped    bool   // requests are held
	Swallow    bool   // drop transactions, pass everything else
	NoSyncs    bool   // drop syncs, pass everything else
	Unread     string // drop reads of data whose path contains this, unless ""
	Forgetful  bool   // the next client to connect again is greeted as a new one
	Twin       bool   // the next enrolment creates a second candidate in the same transaction
}

// NewRelay relays to the server until the test ends.
func NewRelay(t testing.TB, server string) *Relay {
	t.Helper()
	r := &Relay{t: t, Server: server, requests: map[uint32]int{}}
	r.Relay = serverstest.NewRelayWith(t, server, servers.RelayOptions{Serve: r.serve})
	return r
}

// Pass lets everything through again.
func (r *Relay) Pass() { r.Set(func() { r.Held, r.Stopped = false, false }) }

// LoseNextEnrolment passes the next create of a candidate on and breaks the connection instead of
// passing its reply.
func (r *Relay) LoseNextEnrolment() { r.Set(func() { r.LoseCreate = true }) }

func (r *Relay) serve(_ *servers.Relay, client, server net.Conn) {
	e := exchange{make(chan struct{}, 1), make(chan uint32, 1)}
	var both sync.WaitGroup
	both.Go(func() { r.pump(client, server, e, true) })
	both.Go(func() { r.pump(server, client, e, false) })
	both.Wait()
}

// exchange carries information from the requests of a connection to its replies.
type exchange struct {
	lose chan struct{} // lose the next reply
	twin chan uint32   // the request with this number was doubled
}

func (r *Relay) pump(from, to net.Conn, e exchange, requests bool) {
	defer from.Close()
	defer to.Close()
	for first := true; ; first = false {
		frame, err := readFrame(from)
		if err == nil && requests && !first {
			r.stopAt(frame)
		}
		if err != nil || !r.Wait(&r.Held) || requests && !r.Wait(&r.Stopped) {
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
			r.Set(func() { r.sessions = append(r.sessions, frame) })
		case !requests && r.muted(frame):
			continue
		// A reply, but not to a ping.
		case !requests && len(e.lose) > 0 && int32(binary.BigEndian.Uint32(frame[4:])) >= 0:
			return
		case !requests:
			frame = untwinned(frame, e.twin)
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// forget makes the server give a new session to a client that wants its old one, as some servers do
// that only implement ZooKeeper's protocol.
func (r *Relay) forget(connect []byte) {
	r.Lock()
	defer r.Unlock()
	if r.Forgetful {
		r.Forgetful = false
		clear(connect[4+4+8+4:][:8])
		clear(connect[4+4+8+4+8+4:])
	}
}

// note counts requests by operation, and finds the request with the reply to lose.
func (r *Relay) note(frame []byte, lose chan struct{}) {
	operation := binary.BigEndian.Uint32(frame[8:])
	r.Lock()
	defer r.Unlock()
	r.requests[operation]++
	if r.LoseCreate && operation == Create && bytes.Contains(frame, []byte("/"+candidatePrefix)) {
		r.LoseCreate = false
		lose <- struct{}{}
	}
	if r.CutReply && operation == Create && bytes.Contains(frame, []byte("/"+candidatePrefix)) {
		r.CutReply, r.Held = false, true
	}
	if r.Between && operation == Multi {
		r.Between, r.Stopped = false, true
	}
	if r.StopAfter > 0 && operation != Ping {
		r.StopAfter--
		r.Stopped = r.StopAfter == 0
	}
	if r.LoseWrite && operation == Multi {
		r.LoseWrite = false
		lose <- struct{}{}
	}
}

// stopAt stops requests from this one on, if it is the transaction to hold.
func (r *Relay) stopAt(frame []byte) {
	r.Lock()
	defer r.Unlock()
	if r.StopMulti && binary.BigEndian.Uint32(frame[8:]) == Multi {
		r.StopMulti, r.Stopped = false, true
	}
}

func (r *Relay) swallowed(frame []byte) bool {
	r.Lock()
	defer r.Unlock()
	operation := binary.BigEndian.Uint32(frame[8:])
	return r.Swallow && operation == Multi || r.NoSyncs && operation == Sync ||
		r.Unread != "" && operation == GetData && bytes.Contains(frame, []byte(r.Unread))
}

// muted reports whether a frame of the server is a notice that must not pass.
func (r *Relay) muted(frame []byte) bool {
	r.Lock()
	defer r.Unlock()
	return r.Mute && int32(binary.BigEndian.Uint32(frame[4:])) == -1
}

// ExpireSessions closes every session that has passed, from another connection, with the session's
// password. It holds traffic meanwhile, because a returning client would break that connection. A
// relay that was held stays so.
func (r *Relay) ExpireSessions() {
	r.t.Helper()
	r.Lock()
	sessions, held := r.sessions, r.Held
	r.sessions, r.Held = nil, true
	r.Unlock()
	defer r.Set(func() { r.Held = held })
	for _, greeting := range sessions {
		if err := closeSession(r.Server, greeting); err != nil {
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
		return nil // the session had already ended
	}
	return nil
}

func withLength(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}
