package main

import (
	"os"
	"os/signal"
	"testing"

	"github.com/ringfence/ringfence/internal/servers/serverstest"
	"github.com/ringfence/ringfence/internal/supervise"
)

func TestMain(m *testing.M) {
	restoreDefaults()
	os.Exit(serverstest.RunMain(m))
}

// restoreDefaults gives the commands of tests the default for every signal, also where the tests were started with some
// ignored, as by nohup: a shell cannot trap a signal that was ignored when it started. A child gets the default for what
// this process handles, so this process handles such a signal from now on, by dropping it.
func restoreDefaults() {
	for _, sig := range supervise.Forwarded {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
