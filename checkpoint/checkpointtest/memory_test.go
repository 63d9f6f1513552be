package checkpointtest

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestMemoryKeepsTheContract(t *testing.T) {
	Run(t, func(*testing.T) Fixture { return inMemory(NewMemory()) })
}

func TestMemoryKeepsTheContractOfTransactors(t *testing.T) {
	RunTransactor(t, func(*testing.T) TransactorFixture[*Tx] {
		m := NewMemory()
		return transactingInMemory(inMemory(m), m)
	})
}

// inMemory makes a fixture on one Memory.
func inMemory(m *Memory) Fixture {
	m.Limit = 1 << 17
	return Fixture{Journal: m, Second: m, Lead: leading(m), Limit: m.Limit}
}

// leading makes leaders with rising tokens above 2^53, where neighbours are equal as floats.
func leading(m fence.Raiser) func(testing.TB, fence.Resource) fence.Claim {
	var last atomic.Int64
	last.Store(1<<53 + 2)
	return func(t testing.TB, r fence.Resource) fence.Claim {
		c := fence.Claim{Resource: r, Token: fence.Token(last.Add(1)), Issuer: "coordinator-1",
			Holder: "host-1"}
		if err := m.Raise(t.Context(), c); err != nil {
			t.Errorf("raise for %s: %v", c, err)
		}
		return c
	}
}

func transactingInMemory(f Fixture, m *Memory) TransactorFixture[*Tx] {
	return TransactorFixture[*Tx]{
		Fixture: f,
		Effect: func(_ context.Context, tx *Tx, value string) error {
			tx.Append(value)
			return nil
		},
		Effects: func(testing.TB) (values []string) {
			for _, e := range m.Effects() {
				values = append(values, e.Value)
			}
			return values
		},
	}
}
