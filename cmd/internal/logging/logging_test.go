package logging_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/logging"
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

func TestALineSaysEachThingOnceAndDurationsWithTheirUnit(t *testing.T) {
	type resource string
	var b bytes.Buffer
	log := logging.New(&b, slog.LevelInfo).With("resource", "orders")
	log.With("resource", "orders").Info("again", "resource", resource("orders"), "in",
		49*time.Millisecond,
		"holder", "a")
	if n := bytes.Count(b.Bytes(), []byte(`"resource":"orders"`)); n != 1 {
		t.Errorf("the resource %d times: %s", n, b.String())
	}
	if !bytes.Contains(b.Bytes(), []byte(`"in":"49ms","holder":"a"`)) {
		t.Error(b.String())
	}
	b.Reset()
	log.Info("another", "resource", "stock") // another value is not left out
	if !bytes.Contains(b.Bytes(), []byte(`"resource":"stock"`)) {
		t.Error(b.String())
	}
}
