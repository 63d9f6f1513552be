package documentstest

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence/documents"
)

// faults are what goes wrong between one client and the documents. The contents' mutex guards them.
type faults struct {
	cut       bool
	loseReply bool
	hold      *onItsWay
}

// onItsWay is a change that was sent and has not arrived.
type onItsWay struct{ sent, arrive chan struct{} }

// Cut lets no call of this client through until Heal.
func (m *Memory) Cut() { m.fault(func() { m.faults.cut = true }) }

// Heal undoes Cut.
func (m *Memory) Heal() { m.fault(func() { m.faults.cut = false }) }

// LoseReply makes this client's next change succeed without a reply.
func (m *Memory) LoseReply() { m.fault(func() { m.faults.loseReply = true }) }

// Hold holds this client's next change on its way. held waits until it was sent, release lets it
// arrive.
func (m *Memory) Hold() (held, release func()) {
	h := &onItsWay{make(chan struct{}), make(chan struct{})}
	m.fault(func() { m.faults.hold = h })
	return func() { <-h.sent }, func() { close(h.arrive) }
}

// fault changes the faults, and wakes the watches.
func (m *Memory) fault(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	close(m.changed)
	m.changed = make(chan struct{})
}

// reach returns why a call does not get through, or nil. The caller holds mu.
func (m *Memory) reach(ctx context.Context) error {
	if err := m.over(ctx); err != nil {
		return err
	}
	if m.faults.cut {
		return fmt.Errorf("%w: cut off from the coordinator", documents.ErrUnreachable)
	}
	return nil
}

// travel waits while a change is held on its way. Nobody can call it back.
func (m *Memory) travel() {
	m.mu.Lock()
	h := m.faults.hold
	m.faults.hold = nil
	m.mu.Unlock()
	if h != nil {
		close(h.sent)
		<-h.arrive
	}
}

// reply returns what a change has brought, or loses it. The caller holds mu.
func (m *Memory) reply(versions []int64) ([]int64, error) {
	if m.faults.loseReply {
		m.faults.loseReply = false
		return nil, fmt.Errorf("%w: it was lost on purpose", documents.ErrUnknown)
	}
	return versions, nil
}
