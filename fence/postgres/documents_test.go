package postgres

import (
	"testing"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/documents/documentstest"
)

func TestPostgresKeepsTheContractOfDocuments(t *testing.T) {
	documentstest.Run(t, documentsFixture(t, ""))
}

func TestPollingKeepsTheContractOfDocuments(t *testing.T) {
	documentstest.Run(t, documentsFixture(t, "&listen=off"))
}

func TestTheContractOfDocumentsFindsFlawsOnPostgres(t *testing.T) {
	documentstest.RunFlaws(t, documentsFixture(t, ""))
}

func documentsFixture(t *testing.T, options string) documentstest.Fixture {
	h, of := faultyHarness(t, options)
	return documentstest.Fixture{
		Open:      func(t testing.TB) documents.Coordinator { return h.Open(t).(*Coordinator) },
		Cut:       func(t testing.TB, c documents.Coordinator) { h.Cut(t, c) },
		Heal:      func(t testing.TB, c documents.Coordinator) { h.Heal(t, c) },
		LoseReply: func(t testing.TB, c documents.Coordinator) { h.LoseReply(t, c) },
		Hold: func(_ testing.TB, c documents.Coordinator) (held, release func()) {
			f, sent := of(c), make(chan struct{})
			f.sent.Store(&sent)
			f.relay.Hold()
			return func() { <-sent }, f.relay.Pass
		},
	}
}
