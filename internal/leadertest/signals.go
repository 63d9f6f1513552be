package leadertest

import (
	"os"
	"os/signal"

	"github.com/ringfence/ringfence/internal/supervise"
)

// RestoreSignals gives the commands of tests the default for every signal, also where the tests
// were started with some ignored, as by nohup: a shell cannot trap a signal that was ignored when
// it started. A child gets the default for what this process handles, so this process handles such
// a signal from now on, by dropping it.
func RestoreSignals() {
	for _, sig := range supervise.Forwarded {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
