package assigner

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

func TestFinishedJobsAreForgottenWhenTheirTimeIsOverOrThereAreTooMany(t *testing.T) {
	now := time.Now()
	p := records.PathsOf("g")
	var names []string
	for i := range 6 {
		// the third one: now
		s := job.Status{
			ID: records.NewID(now), State: job.Done, Kept: 10,
			Expires: now.Add(time.Duration(i-2) * time.Minute),
		}
		names = append(names, p.Expiry(s)[len(p.Finished())+1:])
	}
	type limits struct{ jobs, bytes int }
	for most, want := range map[limits]int{
		{6, 99}: 3, {10, 99}: 3, {4, 99}: 3, {3, 99}: 3, {2, 99}: 4, {0, 99}: 6,
		{6, 60}: 3, {6, 30}: 3, {6, 29}: 4, {6, 20}: 4, {6, 0}: 6, {2, 10}: 5,
	} {
		ids, entries := expired(names, most.jobs, most.bytes, now)
		if len(ids) != want {
			t.Errorf("of 6, 3 of them expired, %d jobs are forgotten, want %d within %+v", len(ids), want,
				most)
		}
		for i, id := range ids {
			if entries[id] != names[i] {
				t.Errorf("the entry of %s is %q, not %q", id, entries[id], names[i])
			}
		}
	}
	if ids, _ := expired(append([]string{"no entry"}, names...), 7, 99, now); len(ids) != 3 {
		t.Errorf("an entry that cannot be read hides others: %v", ids)
	}
}

// Failed jobs are kept for longer. So without a limit of their own a job that is done would be
// forgotten as soon as there are too many of them.
func TestFailedJobsLeaveRoomForThoseThatAreDone(t *testing.T) {
	now := time.Now()
	p := records.PathsOf("g")
	var names []string
	add := func(state job.State, expires time.Duration) job.ID {
		s := job.Status{ID: records.NewID(now), State: state, Kept: 10, Expires: now.Add(expires)}
		names = append(names, p.Expiry(s)[len(p.Finished())+1:])
		return s.ID
	}
	done := add(job.Done, time.Minute)
	var failed []job.ID
	for i := range 10 {
		state := []job.State{job.Failed, job.Cancelled}[i%2]
		failed = append(failed, add(state, time.Hour+time.Duration(i)))
	}
	for most, want := range map[room]int{{10, 999}: 5, {999, 100}: 5, {8, 999}: 6, {22, 999}: 0} {
		got, _ := expired(names, most.jobs, most.bytes, now)
		if slices.Contains(got, done) || !slices.Equal(got, failed[:want]) {
			t.Errorf("within %+v, %v are forgotten; done is %s, failed are %v", most, got, done, failed)
		}
	}
}
