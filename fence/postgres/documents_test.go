package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
	"github.com/ringfence/ringfence/internal/test/journaltest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
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

func TestJournalsKeepTheirContract(t *testing.T) { journaltest.Run(t, documentsFixture(t, "")) }

func TestCheckpointsOutliveAServerThatIsKilled(t *testing.T) {
	t.Parallel()
	d := database{serverstest.Postgres(t, servers.PostgresOptions{}), "postgres"}
	open := func(t testing.TB) documents.Coordinator { return openWith(t, d.url(), time.Minute, nil) }
	journaltest.ThroughKills(t, open, 2, 10, func(int, func(string)) {
		if err := errors.Join(d.pg.Kill(), d.pg.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
	})
}

func documentsFixture(t *testing.T, options string) documentstest.Fixture {
	h, of := faultyHarness(t, options)
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
			f, sent := of(c), make(chan struct{})
			f.sent.Store(&sent)
			f.relay.Hold()
			return func() { <-sent }, f.relay.Pass
		},
	}
}
