package jobs

import (
	"testing"
	"time"
)

func TestFinishedJobsAreForgottenWhenTheirTimeIsOverOrThereAreTooMany(t *testing.T) {
	now := time.Now()
	l := layoutOf("g")
	var names []string
	for i := range 6 {
		s := Status{ID: newID(now), Expires: now.Add(time.Duration(i-2) * time.Minute)} // the third one: now
		names = append(names, l.expiry(s)[len(l.finished())+1:])
	}
	for most, want := range map[int]int{6: 3, 10: 3, 4: 3, 3: 3, 2: 4, 0: 6} {
		ids, entries := expired(names, most, now)
		if len(ids) != want {
			t.Errorf("of 6, 3 of them expired, %d jobs are forgotten, want %d if %d may stay", len(ids), want, most)
		}
		for i, id := range ids {
			if entries[id] != names[i] {
				t.Errorf("the entry of %s is %q, not %q", id, entries[id], names[i])
			}
		}
	}
	if ids, _ := expired(append([]string{"no entry"}, names...), 7, now); len(ids) != 3 {
		t.Errorf("an entry that cannot be read hides others: %v", ids)
	}
}
