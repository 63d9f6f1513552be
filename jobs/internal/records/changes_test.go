package records

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
)

// A job that was never assigned has left nothing.
func TestOnlyAJobThatHasHadAResourceIsCleanedUpAfter(t *testing.T) {
	for resource, want := range map[fence.Resource]bool{"": false, "job_g_q7f3m2ab_1": true} {
		r := Record{Status: job.Status{
			ID: NewID(time.Now()), Resource: resource, State: job.Cancelled, CleanUp: "sweep",
		}}
		submitted := false
		for _, w := range (Changes{PathsOf("g")}).Forget(r, time.Now()) {
			submitted = submitted || w.Kind == documents.KindPut && strings.Contains(w.Path, "/waiting/")
		}
		if submitted != want {
			t.Errorf("resource %q: a clean-up is submitted: %v", resource, submitted)
		}
	}
}

// Neither failures, nor workers that are lost or cannot begin, move the rounds of a job. Nor does a
// worker whose clock is behind that of the assigner.
func TestAJobThatRepeatsKeepsItsPeriod(t *testing.T) {
	submitted := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	due, next := submitted.Add(time.Hour), submitted.Add(2*time.Hour)
	c := Changes{PathsOf("g")}
	for _, every := range []string{"1h", "0 * * * *"} {
		spec := job.Spec{Kind: "a", Every: every, Retries: 1, Backoff: job.Duration(time.Minute)}
		running := Record{Status: job.Status{
			ID: NewID(submitted), State: job.Running, Submitted: submitted, Due: due,
		}}
		r := running
		for _, step := range []func(now time.Time) []documents.Write{
			func(now time.Time) []documents.Write { return c.TakeBack(r, now) },
			func(now time.Time) []documents.Write { return c.GiveBack(r, errors.New("no store"), now) },
			func(now time.Time) []documents.Write {
				return c.Finish(r, spec, End{Err: errTried}, now)
			},
		} {
			r = after(t, step(r.Due.Add(time.Minute)))
			r.State = job.Running
		}
		for _, end := range [][]documents.Write{
			c.Finish(r, spec, End{}, r.Due.Add(time.Minute)),
			c.Finish(running, spec, End{}, due.Add(-time.Millisecond)),
		} {
			if got := after(t, end).Due; !got.Equal(next) {
				t.Errorf("every %s: the next round is due at %v, want %v", every, got, next)
			}
		}
	}
}

// The clock of a worker may be behind that of the assigner. A round that is tried again must not be
// due before its time: that time would be the next round's.
func TestARoundIsNeverDueBeforeItsTime(t *testing.T) {
	due := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	now := due.Add(-time.Minute)
	c := Changes{PathsOf("g")}
	spec := job.Spec{Kind: "a", Every: "0 * * * *", Retries: 1}
	r := Record{Status: job.Status{
		ID: NewID(now), State: job.Running, Submitted: due.Add(-time.Hour), Due: due, Every: spec.Every,
	}}
	for what, step := range map[string][]documents.Write{
		"a failure": c.Finish(r, spec, End{Err: errTried}, now),
		"a return":  c.GiveBack(r, errors.New("no store"), now),
	} {
		if got := after(t, step); got.Due.Before(due) || got.Rounds != 0 {
			t.Errorf("after %s it is due at %v, in round %d", what, got.Due, got.Rounds)
		}
	}
}

func TestABackoffDoublesUpToAnHour(t *testing.T) {
	const forever = time.Duration(1<<63 - 1)
	for first, want := range map[time.Duration][]time.Duration{
		0:                {time.Second, 2 * time.Second, 4 * time.Second},
		20 * time.Minute: {20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour},
		30 * time.Minute: {30 * time.Minute, time.Hour, time.Hour},
		2 * time.Hour:    {2 * time.Hour, 2 * time.Hour, 2 * time.Hour},
		forever:          {forever, forever, forever},
	} {
		for i, d := range want {
			if got := pauseAfter(job.Spec{Backoff: job.Duration(first)}, i+1); got != d {
				t.Errorf("backoff %s: %s after failure %d, want %s", first, got, i+1, d)
			}
		}
	}
}

func TestAJobWithoutATimeIsNoJob(t *testing.T) {
	for _, c := range []struct {
		every string
		year  int
		month time.Month
		good  bool
	}{
		{"0 0 1 1 *", 9999, time.June, false},    // first in the year 10000
		{"0 3 29 2 *", 2097, time.January, true}, // 2104
		{"0 3 29 2 *", 9997, time.January, false},
		{"0 0 1 12 *", 9999, time.June, true},
		{"8760h", 9999, time.June, true},
		{"", 9999, time.June, true},
	} {
		spec := job.Spec{
			Kind: "a", Every: c.every, NotBefore: time.Date(c.year, c.month, 1, 0, 0, 0, 0, time.UTC),
		}
		if err := spec.Check(); (err == nil) != c.good || err != nil && !errors.Is(err, job.ErrBadSpec) {
			t.Errorf("every %q, not before %s of %d: %v", c.every, c.month, c.year, err)
		}
		if !c.good {
			continue
		}
		now := time.Now()
		r := Record{Status: job.Status{
			ID: NewID(now), State: job.Running, Submitted: now, Due: spec.FirstDue(now), Every: c.every,
		}}
		if got := after(t, (Changes{PathsOf("g")}).Finish(r, spec, End{}, now)); c.year == 9999 &&
			got.State != job.Done {
			t.Errorf("every %q: after its last round it is %s, due at %v", c.every, got.State, got.Due)
		}
	}
}

// after returns the status that a step makes.
func after(t *testing.T, step []documents.Write) Record {
	t.Helper()
	r, err := Parse(documents.Document{Version: 1, Data: step[0].Data})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var errTried = errors.New("the try has failed")
