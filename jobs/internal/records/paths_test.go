package records

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/jobs/job"
)

func TestNamesOfEntries(t *testing.T) {
	due := time.UnixMilli(1_795_408_029_123)
	id := NewID(due)
	s := job.Status{ID: id, Priority: 4, Due: due, Expires: due}
	s.Bytes, s.Kept, s.State = 77, 77, job.Failed
	finished := func(name string) (job.ID, int, time.Time, bool) {
		e, ok := ParseExpiry(name)
		return e.ID, e.Bytes, e.Expires, ok && e.State == job.Failed
	}
	for name, read := range map[string]func(string) (job.ID, int, time.Time, bool){
		entryName(s): ParseEntry, Paths{}.Expiry(s)[len("/finished/"):]: finished,
	} {
		if got, bytes, at, ok := read(name); !ok || got != id || bytes != 77 || !at.Equal(due) {
			t.Errorf("%s: got %s, %d, %v, %v", name, got, bytes, at, ok)
		}
		for _, wrong := range []string{
			"", "x", "5.x.1." + string(id) + ".2", "5.00000000000001.1.short.2",
			"5.00000000000001.1." + string(id) + ".x",
			"x.2." + string(id) + ".failed", "5." + string(id), string(id), "5.2." + string(id) + ".waiting",
		} {
			if _, _, _, ok := read(wrong); ok {
				t.Errorf("%q is taken for an entry", wrong)
			}
		}
	}
	paused := s
	paused.Paused = true
	if _, _, at, ok := ParseEntry(entryName(paused)); !ok || at.Year() < 5000 {
		t.Errorf("a paused job is due at %v", at)
	}
	again := s
	again.Attempt++
	if entryName(again) == entryName(s) {
		t.Error("two attempts have the same entry")
	}
}

// Jobs that are handed in within a millisecond are assigned in this order, whatever their sizes
// are.
func TestSizesDoNotChangeTheOrder(t *testing.T) {
	due := time.UnixMilli(1_795_408_029_123)
	first, second := job.Status{
		ID: NewID(due), Due: due, Bytes: 9,
	}, job.Status{ID: NewID(due), Due: due, Bytes: 10}
	for range 2 {
		if (entryName(first) < entryName(second)) != (first.ID < second.ID) {
			t.Errorf("%s, %s", entryName(first), entryName(second))
		}
		first.Bytes, second.Bytes = second.Bytes, first.Bytes
	}
}
