package jobs

import (
	"testing"
	"time"
)

func TestAReadingFreesTheRoomOfWhatHasEnded(t *testing.T) {
	now := time.Now()
	w := &worker{listed: map[string]bool{}, pending: map[string]time.Time{"quick": now, "slow": now}}
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

func TestNamesOfEntries(t *testing.T) {
	due := time.UnixMilli(1_795_408_029_123)
	id := newID(due)
	s := Status{ID: id, Priority: 4, Due: due, Expires: due}
	for _, name := range []string{entryName(s), layout{}.expiry(s)[len("/finished/"):]} {
		if got, at, ok := parseEntry(name); !ok || got != id || !at.Equal(due) {
			t.Errorf("%s: got %s, %v, %v", name, got, at, ok)
		}
	}
	for _, wrong := range []string{"", "x", "5.x." + string(id), "5.00000000000001.short", string(id)} {
		if _, _, ok := parseEntry(wrong); ok {
			t.Errorf("%q is taken for an entry", wrong)
		}
	}
}
