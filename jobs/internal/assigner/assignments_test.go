package assigner

import (
	"testing"
	"time"
)

func TestAReadingFreesTheRoomOfWhatHasEnded(t *testing.T) {
	now := time.Now()
	w := newWorker()
	w.pending = map[string]time.Time{"quick": now, "slow": now}
	has := func(want int, when string) {
		t.Helper()
		if got := w.load(); got != want {
			t.Errorf("%s it has %d jobs, want %d", when, got, want)
		}
	}
	has(2, "after the assignment")
	w.show(nil) // a watch that lags behind
	has(2, "after what was before the assignment")
	w.prune(map[string]bool{"slow": true})
	has(1, "after a reading")
	w.show(nil)
	has(1, "while the watch lags behind")
	w.show([]string{"slow"})
	has(1, "once the watch has shown it")
	w.show(nil)
	has(0, "after the end")
}
