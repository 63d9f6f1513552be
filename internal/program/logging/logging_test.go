package logging_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/ringfence/ringfence/internal/program/logging"
)

func TestWithoutATerminalTheLogIsJSONAtItsLevel(t *testing.T) {
	var b bytes.Buffer
	log := logging.New(&b, slog.LevelWarn)
	log.Info("unheard")
	log.Warn("heard", "token", "17")
	var line struct{ Msg, Token string }
	if err := json.Unmarshal(b.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	if line.Msg != "heard" || line.Token != "17" {
		t.Errorf("got %+v", line)
	}
}
