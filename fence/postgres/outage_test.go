package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestATermOutlastsAnOutageOfHalfTheSessionTimeout(t *testing.T) {
	t.Parallel()
	server := serverstest.SharedPostgres(t)
	relay := serverstest.NewRelay(t, server.Addr())
	url := strings.Replace(server.URL("postgres", serverstest.FreshDatabase(t, server)), server.Addr(),
		relay.Addr(), 1)
	c := openWith(t, url, 3*time.Second, nil)
	electiontest.Outlasts(t, c, 3*time.Second, relay, server.Addr(), 1500*time.Millisecond)
}
