package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// A worker that wakes logs what it has written before it was paused.
func TestALineAboutWritesHasTheirTokenAndTheTimeOfTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLogger(slog.New(slog.NewTextHandler(&out, nil)))
		stop := l.everySecond()
		wrote := func(store string) {
			l.add(history.Event{Kind: history.Return, Outcome: history.OK, Store: store, Token: 5})
		}
		wrote("postgres")
		wrote("redis")
		last := time.Now().Format("15:04:05.000")
		time.Sleep(500 * time.Millisecond) // it is paused, and tells it later
		l.add(history.Event{Kind: history.Return, Outcome: history.Stale, Token: 5, Text: "stale token"})
		stop()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "wrote until "+last) ||
			!strings.Contains(lines[0], "token=5 postgres=1 redis=1 total=2") ||
			!strings.Contains(lines[1], "stale token") {
			t.Errorf("%s", out.String())
		}
	})
}
