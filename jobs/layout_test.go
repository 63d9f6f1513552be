package jobs

import (
	"testing"
	"time"
)

func TestNamesOfEntries(t *testing.T) {
	due := time.UnixMilli(1_795_408_029_123)
	id := newID(due)
	s := Status{ID: id, Priority: 4, Due: due, Expires: due}
	for name, read := range map[string]func(string) (ID, time.Time, bool){
		entryName(s): parseEntry, layout{}.expiry(s)[len("/finished/"):]: func(name string) (ID, time.Time, bool) {
			id, _, at, ok := parseExpiry(name)
			return id, at, ok
		},
	} {
		if got, at, ok := read(name); !ok || got != id || !at.Equal(due) {
			t.Errorf("%s: got %s, %v, %v", name, got, at, ok)
		}
		for _, wrong := range []string{
			"", "x", "5.x.1." + string(id), "5.00000000000001.1.short", "x." + string(id), string(id),
		} {
			if _, _, ok := read(wrong); ok {
				t.Errorf("%q is taken for an entry", wrong)
			}
		}
	}
	again := s
	again.Attempt++
	if entryName(again) == entryName(s) {
		t.Error("two attempts have the same entry")
	}
}
