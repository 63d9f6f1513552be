package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
	"github.com/ringfence/ringfence/fence/elector"
)

// Memory is a coordinator in memory. Open makes its clients. It works inside a testing/synctest
// bubble.
type Memory struct {
	timeout time.Duration

	mu        sync.Mutex
	issuer    fence.Issuer
	counter   fence.Token
	elections map[fence.Resource][]*entry // in order of token
	changed   chan struct{}               // closed at the next change of anything
	documents *documentstest.Memory
}

// entry is one candidate and its session, which end together.
type entry struct {
	elector.Candidate
	resource fence.Resource
	until    time.Time // its session lasts until then
	expiry   *time.Timer
	gone     bool // no longer in its election
	expired  bool // gone because its session expired
}

// errCut is what a client gets for a round trip while it is cut off.
var errCut = errors.New("cut off from the coordinator")

// NewMemory makes an empty coordinator. It ends a session after timeout without a round trip.
func NewMemory(timeout time.Duration) *Memory {
	m := &Memory{
		timeout: timeout, issuer: newIssuer(),
		elections: map[fence.Resource][]*entry{}, changed: make(chan struct{}),
	}
	m.documents = documentstest.NewMemory(context.Background(), m.leads)
	return m
}

func newIssuer() fence.Issuer { return fence.Issuer("memory:" + rand.Text()) }

// Delete removes a candidate's entry, as an operator might. It returns false if there is none.
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

// Wipe deletes everything and counts from the start again, under another issuer.
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
	e := &entry{Candidate: elector.Candidate{Token: m.counter, ID: id, Holder: holder}, resource: r}
	e.until = time.Now().Add(m.timeout)
	e.expiry = time.AfterFunc(m.timeout, func() { m.expire(e) })
	m.elections[r] = append(m.elections[r], e)
	m.tell()
	return e
}

// find returns the entry with a client's id, or nil. The caller holds mu.
func (m *Memory) find(r fence.Resource, id string) *entry {
	for _, e := range m.elections[r] {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// touch extends the entry's session. The caller holds mu.
func (m *Memory) touch(e *entry) {
	e.until = time.Now().Add(m.timeout)
	e.expiry.Reset(m.timeout)
}

func (m *Memory) expire(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !e.gone && !time.Now().Before(e.until) { // touch may have come after the timer fired
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

// tell wakes everybody who waits for a change. The caller holds mu.
func (m *Memory) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}
