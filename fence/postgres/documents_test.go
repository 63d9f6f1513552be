package postgres

import (
	"testing"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/documents/documentstest"
)

func TestPostgresKeepsTheContractOfDocuments(t *testing.T) { keepsDocuments(t, "") }

func TestPollingKeepsTheContractOfDocuments(t *testing.T) { keepsDocuments(t, "&listen=off") }

func keepsDocuments(t *testing.T, options string) {
	h := harness(t, options)
	documentstest.Run(t, documentstest.Fixture{
		Open:      func(t testing.TB) documents.Coordinator { return h.Open(t).(*Coordinator) },
		Cut:       func(t testing.TB, c documents.Coordinator) { h.Cut(t, c) },
		Heal:      func(t testing.TB, c documents.Coordinator) { h.Heal(t, c) },
		LoseReply: func(t testing.TB, c documents.Coordinator) { h.LoseReply(t, c) },
	})
}
