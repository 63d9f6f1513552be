package leadertest

import (
	"os"
	"os/signal"

	"github.com/ringfence/ringfence/internal/leader/supervise"
)

// RestoreSignals gives the commands of tests the default action for every signal, even if the tests
// were started with some ignored, as by nohup. A shell cannot trap a signal that was ignored when
// it started. A child gets the default action for every signal that this process handles, so from
// now on this process handles ignored signals by dropping them.
func RestoreSignals() {
	for _, sig := range supervise.Forwarded {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
