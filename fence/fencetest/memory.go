package fencetest

import (
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Memory is a coordinator in memory: the side that is the server. Open makes its clients. It may be
// used inside a testing/synctest bubble.
type Memory struct {
	timeout time.Duration

	mu        sync.Mutex
	issuer    fence.Issuer
	counter   fence.Token
	elections map[fence.Resource][]*entry // in order of token
	changed   chan struct{}               // closed at the next change of anything
}

// entry is one candidate and its session: both live and die together.
type entry struct {
	fence.Candidate
	id       string // the client's own name for it
	resource fence.Resource
	until    time.Time // its session lasts until then
	expiry   *time.Timer
	gone     bool // no longer in its election
	expired  bool // … because its session ran out
}

// errCut is what a client gets for a round trip while it is cut off.
var errCut = errors.New("cut off from the coordinator")

// NewMemory makes an empty coordinator that ends a session it has not heard from for the timeout.
func NewMemory(timeout time.Duration) *Memory {
	return &Memory{
		timeout: timeout, issuer: newIssuer(),
		elections: map[fence.Resource][]*entry{}, changed: make(chan struct{}),
	}
}

func newIssuer() fence.Issuer { return fence.Issuer("memory:" + rand.Text()) }

// Delete removes a candidate's entry behind its back, as an operator might. It reports false when
// there is none.
func (m *Memory) Delete(r fence.Resource, token fence.Token) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.elections[r] {
		if e.Token == token {
			m.remove(e)
			return true
		}
	}
	return false
}

// Wipe forgets everything and counts from the start again, under another issuer.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, queue := range m.elections {
		for _, e := range slices.Clone(queue) {
			e.expired = true // a wiped server does not know the session
			m.remove(e)
		}
	}
	m.counter = 0
	m.issuer = newIssuer()
}

// enrol adds a candidate at the tail. The caller holds mu.
func (m *Memory) enrol(r fence.Resource, holder, id string) *entry {
	m.counter++
	e := &entry{Candidate: fence.Candidate{Token: m.counter, Holder: holder}, id: id, resource: r}
	e.until = time.Now().Add(m.timeout)
	e.expiry = time.AfterFunc(m.timeout, func() { m.expire(e) })
	m.elections[r] = append(m.elections[r], e)
	m.tell()
	return e
}

// find returns the entry with a client's id, or nil. The caller holds mu.
func (m *Memory) find(r fence.Resource, id string) *entry {
	for _, e := range m.elections[r] {
		if e.id == id {
			return e
		}
	}
	return nil
}

// touch puts the end of the entry's session off. The caller holds mu.
func (m *Memory) touch(e *entry) {
	e.until = time.Now().Add(m.timeout)
	e.expiry.Reset(m.timeout)
}

func (m *Memory) expire(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !e.gone && !time.Now().Before(e.until) { // else touched after the timer had fired
		e.expired = true
		m.remove(e)
	}
}

// remove takes the entry out of its election. The caller holds mu.
func (m *Memory) remove(e *entry) {
	if e.gone {
		return
	}
	e.gone = true
	e.expiry.Stop()
	queue := m.elections[e.resource]
	m.elections[e.resource] = slices.DeleteFunc(queue, func(other *entry) bool { return other == e })
	m.tell()
}

// tell wakes whoever waits for a change. The caller holds mu.
func (m *Memory) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}
