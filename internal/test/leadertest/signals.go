package leadertest

import (
	"os"
	"os/signal"
)

// RestoreSignals gives the commands of tests the default action for all signals, even if the tests
// were started with some ignored, as by nohup. A shell cannot trap a signal that was ignored when
// it started. A child gets the default action for every signal that this process handles, so from
// now on this process handles ignored signals by dropping them.
func RestoreSignals(all ...os.Signal) {
	for _, sig := range all {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
