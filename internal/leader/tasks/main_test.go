package tasks

import (
	"os"
	"testing"

	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) {
	leadertest.RestoreSignals()
	os.Exit(serverstest.RunMain(m))
}
