package zookeepertest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Operations of ZooKeeper's protocol.
const (
	Create       = 1
	GetData      = 4
	Sync         = 9
	Ping         = 11
	GetChildren2 = 12 // the library's list request
	Multi        = 14
	SetWatches   = 101
)

// Requested returns how many requests of each operation the relay has passed since the last call,
// without pings.
func (r *Relay) Requested() map[uint32]int {
	r.Lock()
	defer r.Unlock()
	seen := r.requests
	r.requests = map[uint32]int{}
	delete(seen, Ping)
	return seen
}

// Count returns how many requests of an operation have passed since Requested or Recount.
func (r *Relay) Count(operation uint32) int {
	r.Lock()
	defer r.Unlock()
	return r.requests[operation]
}

// Recount is Count, and resets the count of that operation.
func (r *Relay) Recount(operation uint32) int {
	r.Lock()
	defer r.Unlock()
	n := r.requests[operation]
	r.requests[operation] = 0
	return n
}

// Greetings returns how many connections a server has greeted since ExpireSessions.
func (r *Relay) Greetings() int {
	r.Lock()
	defer r.Unlock()
	return len(r.sessions)
}

// HoldsRequest reports that requests are stopped, and something waits for Pass.
func (r *Relay) HoldsRequest() bool {
	r.Lock()
	stopped := r.Stopped
	r.Unlock()
	return stopped && r.Holds()
}

// readFrame returns length and body.
func readFrame(r io.Reader) ([]byte, error) {
	const most = 64 << 20
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > most {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, head[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
