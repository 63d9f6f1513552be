package leadertest

import (
	"testing"

	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// Queue returns the candidates for orders.
func Queue(t *testing.T, m *fencetest.Memory) []elector.Candidate {
	t.Helper()
	observer := m.Open()
	defer observer.Close()
	queue, err := observer.Candidates(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

// Depose deletes the entry of the leader of orders.
func Depose(t *testing.T, m *fencetest.Memory) {
	t.Helper()
	if q := Queue(t, m); len(q) == 0 || !m.Delete("orders", q[0].Token) {
		t.Fatal("nobody leads orders")
	}
}
