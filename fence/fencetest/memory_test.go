package fencetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

const memoryTimeout = 6 * time.Second // long enough for a busy machine

func memoryFixture(m *Memory) Fixture {
	client := func(c elector.Coordinator) *Client { return c.(*Client) }
	return Fixture{
		Open:           func(testing.TB) elector.Coordinator { return m.Open() },
		SessionTimeout: memoryTimeout,
		Cut:            func(_ testing.TB, c elector.Coordinator) { client(c).Cut() },
		Heal:           func(_ testing.TB, c elector.Coordinator) { client(c).Heal() },
		Drop: func(_ testing.TB, c elector.Coordinator) { // it has no connections, so it asks again
			client(c).set(func() {})
		},
		Expire:    func(_ testing.TB, c elector.Coordinator) { client(c).Expire() },
		LoseReply: func(_ testing.TB, c elector.Coordinator) { client(c).LoseReply() },
		Alone: func(testing.TB) (c, operator elector.Coordinator) {
			m := NewMemory(memoryTimeout)
			return m.Open(), m.Open()
		},
		Delete: func(t testing.TB, r fence.Resource, token fence.Token) {
			if !m.Delete(r, token) {
				t.Errorf("token %v is not enrolled for %s", token, r)
			}
		},
	}
}

func TestMemoryKeepsTheContract(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for session timeouts; TestMemoryKeepsTheContractOnAFakeClock does not")
	}
	Run(t, memoryFixture(NewMemory(memoryTimeout)))
}

// Each clause has a bubble and a memory of its own. In a bubble a session timeout takes no time.
func TestMemoryKeepsTheContractOnAFakeClock(t *testing.T) {
	inBubbles(t, func(t *testing.T) *stage {
		m := NewMemory(memoryTimeout)
		leadOnce(t, m)
		return newStage(t, memoryFixture(m))
	})
}

// leadOnce makes the memory one that has been used, whose next token is not 1.
func leadOnce(t *testing.T, m *Memory) {
	t.Helper()
	c := m.Open()
	defer c.Close()
	term, err := c.Campaign(t.Context(), "earlier", "earlier")
	must.Succeed(t, err)
	must.Succeed(t, term.Resign(t.Context()))
}

// In a bubble a session timeout takes no time.
func TestMemoryInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(time.Hour)
		a, b := m.Open(), m.Open()
		defer a.Close()
		defer b.Close()
		first, err := a.Campaign(t.Context(), "orders", "a")
		must.Succeed(t, err)
		a.Cut()
		next, err := b.Campaign(t.Context(), "orders", "b")
		must.Succeed(t, err)
		if first.State() != fence.Lost || next.State() != fence.Active || next.Token() <= first.Token() {
			t.Errorf("%v is %v, %v is %v", first.Claim(), first.State(), next.Claim(), next.State())
		}
	})
}

func TestAWipedMemoryIsAnotherIssuer(t *testing.T) {
	m := NewMemory(time.Minute)
	c := m.Open()
	defer c.Close()
	before, err := c.Campaign(t.Context(), "orders", "a")
	must.Succeed(t, err)
	m.Wipe()
	<-before.Context().Done()
	after, err := c.Campaign(t.Context(), "orders", "a")
	must.Succeed(t, err)
	if before.Claim().Issuer == after.Claim().Issuer || before.Token() != after.Token() {
		t.Errorf("%+v became %+v", before.Claim(), after.Claim())
	}
}
