package jobs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
)

// A job that was never assigned has left nothing.
func TestOnlyAJobThatHasHadAResourceIsCleanedUpAfter(t *testing.T) {
	for resource, want := range map[fence.Resource]bool{"": false, "job_g_q7f3m2ab_1": true} {
		r := record{Status: Status{ID: newID(time.Now()), Resource: resource, State: Cancelled, CleanUp: "sweep"}}
		submitted := false
		for _, w := range (changes{pathsOf("g")}).forget(r, time.Now()) {
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
	c := changes{pathsOf("g")}
	for _, every := range []string{"1h", "0 * * * *"} {
		spec := Spec{Kind: "a", Every: every, Retries: 1, Backoff: Duration(time.Minute)}
		running := record{Status: Status{
			ID: newID(submitted), State: Running, Submitted: submitted, Due: due,
		}}
		r := running
		for _, step := range []func(now time.Time) []documents.Write{
			func(now time.Time) []documents.Write { return c.takeBack(r, now) },
			func(now time.Time) []documents.Write { return c.giveBack(r, errors.New("no store"), now) },
			func(now time.Time) []documents.Write { return c.finish(r, spec, outcome{err: ErrTimeout}, now) },
		} {
			r = after(t, step(r.Due.Add(time.Minute)))
			r.State = Running
		}
		for _, end := range [][]documents.Write{
			c.finish(r, spec, outcome{}, r.Due.Add(time.Minute)),
			c.finish(running, spec, outcome{}, due.Add(-time.Millisecond)),
		} {
			if got := after(t, end).Due; !got.Equal(next) {
				t.Errorf("every %s: the next round is due at %v, want %v", every, got, next)
			}
		}
	}
}

func TestTheFirstRoundOfAJobThatRepeatsIsDueWhenItsScheduleSaysSo(t *testing.T) {
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		every                string
		submitted, notBefore time.Duration
		want                 time.Duration // all after the beginning of the day
	}{
		{"", 9 * time.Hour, 0, 9 * time.Hour},
		{"15m", 9 * time.Hour, 0, 9 * time.Hour},
		{"15m", 9 * time.Hour, 10 * time.Hour, 10 * time.Hour},
		{"0 3 * * *", 9 * time.Hour, 0, 27 * time.Hour},
		{"0 3 * * *", 3 * time.Hour, 0, 3 * time.Hour},
		{"0 3 * * *", 9 * time.Hour, 50 * time.Hour, 51 * time.Hour},
		{"0 3 * * *", 9 * time.Hour, 51 * time.Hour, 51 * time.Hour},
	} {
		spec := Spec{Every: c.every}
		if c.notBefore > 0 {
			spec.NotBefore = day.Add(c.notBefore)
		}
		if got := spec.first(day.Add(c.submitted)).Sub(day); got != c.want {
			t.Errorf("%+v: it is due %s after midnight", c, got)
		}
	}
}

// after returns the status that a step makes.
func after(t *testing.T, step []documents.Write) record {
	t.Helper()
	r, err := parse(documents.Document{Version: 1, Data: step[0].Data})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
