package etcd

import (
	"testing"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
	"github.com/ringfence/ringfence/internal/test/journaltest"
)

func TestEtcdKeepsTheContractOfDocuments(t *testing.T) { documentstest.Run(t, documentsFixture(t)) }

func TestTheContractOfDocumentsFindsFlawsOnEtcd(t *testing.T) {
	documentstest.RunFlaws(t, documentsFixture(t))
}

func TestJournalsKeepTheirContract(t *testing.T) { journaltest.Run(t, documentsFixture(t)) }

func TestJournalsKeepTheirContractWhileRepliesAreLost(t *testing.T) {
	t.Parallel()
	journaltest.RunLossy(t, documentsFixture(t))
}

func documentsFixture(t *testing.T) documentstest.Fixture {
	h, of := faultyHarness(t)
	return documentstest.Fixture{
		Open: func(t testing.TB) documents.Coordinator { return h.Open(t).(*Coordinator) },
		Alone: func(t testing.TB) (c, operator documents.Coordinator) {
			one, other := h.Alone(t)
			return one.(*Coordinator), other.(*Coordinator)
		},
		Cut:       func(t testing.TB, c documents.Coordinator) { h.Cut(t, c) },
		Heal:      func(t testing.TB, c documents.Coordinator) { h.Heal(t, c) },
		LoseReply: func(t testing.TB, c documents.Coordinator) { h.LoseReply(t, c) },
		Hold: func(_ testing.TB, c documents.Coordinator) (held, release func()) {
			w := &onItsWay{make(chan struct{}), make(chan struct{})}
			of(c).hold.Store(w)
			return func() { <-w.sent }, func() { close(w.arrive) }
		},
	}
}
