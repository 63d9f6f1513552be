package tasks

import (
	"os"
	"testing"

	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) {
	leadertest.RestoreSignals(supervise.Forwarded...)
	os.Exit(serverstest.RunMain(m))
}
