package records

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
)

// lines is a history, one attempt after the other.
func lines(all []job.Attempt) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "%d.%d %s under %s %s: %s; ", a.Round, a.Attempt, a.Worker, a.Token, a.Outcome,
			a.Error)
	}
	return b.String()
}

func TestAHistoryHasOneLineForEachAttempt(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	c := Changes{PathsOf("g")}
	spec := job.Spec{Kind: "k", Every: "1h", Retries: 1}
	r := Record{Status: job.Status{
		ID: NewID(now), State: job.Waiting, Submitted: now, Due: now, Every: spec.Every,
	}}
	attempt := func(runs bool, end func(Record) []documents.Write) {
		t.Helper()
		_, writes := c.Assign(r, r.Status, 7, "w")
		r = after(t, writes)
		if runs {
			r = after(t, c.Start(r, r.Token+10, now))
		}
		r = after(t, end(r))
	}
	finish := func(err error) func(Record) []documents.Write {
		return func(r Record) []documents.Write { return c.Finish(r, spec, End{Err: err}, now) }
	}
	attempt(true, func(r Record) []documents.Write { return c.TakeBack(r, now) })
	attempt(false, func(r Record) []documents.Write { return c.GiveBack(r, nil, now) })
	attempt(false, func(r Record) []documents.Write {
		return c.GiveBack(r, errors.New("no store"), now)
	})
	attempt(true, finish(errors.New("it broke")))
	if r.RoundToken != 10 {
		t.Errorf("the round began under token %s, want 10", r.RoundToken)
	}
	attempt(true, finish(nil))
	if r.Rounds != 1 || r.RoundToken != 0 {
		t.Errorf("after the round: %+v", r.Status)
	}
	attempt(true, func(r Record) []documents.Write { return c.CancelNow(r, now) })
	want := "1.1 w under 10 lost: worker 7 (w) was gone before it had finished; 1.2 w under 0 " +
		"returned: ; 1.3 w under 0 returned: worker 7 (w) could not begin: no store; 1.4 w under 20 " +
		"failed: it broke; 1.5 w under 30 done: ; 2.6 w under 40 cancelled: ; "
	if got := lines(r.History); got != want {
		t.Errorf("the history is\n%s, want\n%s", got, want)
	}
	r = after(t, c.Retry(r, now)) // it goes on
	if got := lines(r.History); got != want {
		t.Errorf("after a retry by hand it is\n%s", got)
	}
}

func TestAHistoryIsBoundedAndKeepsTheLastAttempts(t *testing.T) {
	now := time.Now()
	c := Changes{PathsOf("g")}
	r := Record{Status: job.Status{ID: NewID(now), Submitted: now, Due: now}}
	long := errors.New(strings.Repeat("x", 10*job.MaxError))
	for range 50 {
		_, writes := c.Assign(r, r.Status, 7, strings.Repeat("w", 200))
		r = after(t, writes)
		r = after(t, c.Start(r, r.Token+1, now))
		r = after(t, c.Finish(r, job.Spec{Retries: job.MaxRetries}, End{Err: long}, now))
	}
	if got := len(Encode(r.History)); got > job.MaxHistory || got < job.MaxHistory/2 {
		t.Errorf("the history has %d bytes, and may have %d", got, job.MaxHistory)
	}
	if last := r.History[len(r.History)-1]; last.Attempt != 50 {
		t.Errorf("the last attempt is %d", last.Attempt)
	}
}

// A worker on a machine without time zones must not end a job that repeats as if it were done.
func TestAJobWhoseZoneIsUnknownFailsAndSaysSo(t *testing.T) {
	now := time.Now()
	r := Record{Status: job.Status{ID: NewID(now), State: job.Running, Submitted: now, Due: now}}
	spec := job.Spec{Every: "CRON_TZ=Nowhere/Unknown 0 3 * * *"}
	got := after(t, (Changes{PathsOf("g")}).Finish(r, spec, End{}, now))
	if got.State != job.Failed || !strings.Contains(got.Error, "it does not start again: ") {
		t.Errorf("%+v", got.Status)
	}
}
