package electiontest

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Outlasts checks that terms of this session timeout outlast an outage behind a relay to a server:
// in two of three outages, as this machine may stall for a while, too.
func Outlasts(
	t *testing.T, c fence.Elector, session time.Duration, relay interface{ To(server string) },
	server string, outage time.Duration,
) {
	t.Helper()
	lost := 0
	for try := range 3 {
		term := Win(t, c, "orders", "a")
		from := term.Deadline()
		Eventually(t, "a heartbeat", func() bool { return term.Deadline().After(from) })
		time.Sleep(session / 5) // shortly before the next one
		relay.To("127.0.0.1:1") // which accepts nothing
		time.Sleep(outage)
		relay.To(server)
		back := time.Now()
		Eventually(t, "the term is confirmed, or lost", func() bool {
			return term.State() == fence.Lost || !term.Deadline().Before(back.Add(session))
		})
		if term.State() == fence.Lost {
			lost++
			t.Logf("outage %d of %s has ended the term", try+1, outage)
		}
		if err := term.Resign(t.Context()); err != nil && !errors.Is(err, fence.ErrLost) {
			t.Log(err)
		}
	}
	if lost > 1 {
		t.Errorf("%d of 3 outages of %s have ended a term", lost, outage)
	}
}
