package tasks

import (
	"os"
	"testing"

	"github.com/ringfence/ringfence/internal/leadertest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestMain(m *testing.M) {
	leadertest.RestoreSignals()
	os.Exit(serverstest.RunMain(m))
}
