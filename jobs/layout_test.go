package jobs

import (
	"testing"
	"time"
)

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
