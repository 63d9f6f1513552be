package fencetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	const timeout = 6 * time.Second // long enough for a busy machine
	m := fencetest.NewMemory(timeout)
	client := func(c fence.Coordinator) *fencetest.Client { return c.(*fencetest.Client) }
	fencetest.Run(t, fencetest.Harness{
		Open:           func(testing.TB) fence.Coordinator { return m.Open() },
		SessionTimeout: timeout,
		Cut:            func(_ testing.TB, c fence.Coordinator) { client(c).Cut() },
		Heal:           func(_ testing.TB, c fence.Coordinator) { client(c).Heal() },
		Expire:         func(_ testing.TB, c fence.Coordinator) { client(c).Expire() },
		LoseReply:      func(_ testing.TB, c fence.Coordinator) { client(c).LoseReply() },
		Alone: func(testing.TB) (c, operator fence.Coordinator) {
			m := fencetest.NewMemory(timeout)
			return m.Open(), m.Open()
		},
		Delete: func(t testing.TB, r fence.Resource, token fence.Token) {
			if !m.Delete(r, token) {
				t.Errorf("token %v is not enrolled for %s", token, r)
			}
		},
	})
}

// In a bubble a session timeout takes no time.
func TestMemoryInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fencetest.NewMemory(time.Hour)
		a, b := m.Open(), m.Open()
		defer a.Close()
		defer b.Close()
		first, err := a.Campaign(t.Context(), "orders", "a")
		if err != nil {
			t.Fatal(err)
		}
		a.Cut()
		next, err := b.Campaign(t.Context(), "orders", "b")
		if err != nil {
			t.Fatal(err)
		}
		if first.State() != fence.Lost || next.State() != fence.Active || next.Token() <= first.Token() {
			t.Errorf("%v is %v, %v is %v", first.Claim(), first.State(), next.Claim(), next.State())
		}
	})
}

func TestAWipedMemoryIsAnotherIssuer(t *testing.T) {
	m := fencetest.NewMemory(time.Minute)
	c := m.Open()
	defer c.Close()
	before, err := c.Campaign(t.Context(), "orders", "a")
	if err != nil {
		t.Fatal(err)
	}
	m.Wipe()
	<-before.Context().Done()
	after, err := c.Campaign(t.Context(), "orders", "a")
	if err != nil {
		t.Fatal(err)
	}
	if before.Claim().Issuer == after.Claim().Issuer || before.Token() != after.Token() {
		t.Errorf("%+v became %+v", before.Claim(), after.Claim())
	}
}
