package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
)

// lines is a history, one attempt after the other.
func lines(all []Attempt) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "%d.%d %s under %s %s: %s; ", a.Round, a.Attempt, a.Worker, a.Token, a.Outcome,
			a.Error)
	}
	return b.String()
}

func TestAHistoryHasOneLineForEachAttempt(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	c := changes{pathsOf("g")}
	spec := Spec{Kind: "k", Every: "1h", Retries: 1}
	r := record{Status: Status{
		ID: newID(now), State: Waiting, Submitted: now, Due: now, Every: spec.Every,
	}}
	attempt := func(runs bool, end func(record) []documents.Write) {
		t.Helper()
		_, writes := c.assign(r, r.Status, 7, "w")
		r = after(t, writes)
		if runs {
			r = after(t, c.start(r, r.Token+10, now))
		}
		r = after(t, end(r))
	}
	finish := func(err error) func(record) []documents.Write {
		return func(r record) []documents.Write { return c.finish(r, spec, outcome{err: err}, now) }
	}
	attempt(true, func(r record) []documents.Write { return c.takeBack(r, now) })
	attempt(false, func(r record) []documents.Write { return c.giveBack(r, nil, now) })
	attempt(false, func(r record) []documents.Write {
		return c.giveBack(r, errors.New("no store"), now)
	})
	attempt(true, finish(errors.New("it broke")))
	if r.RoundToken != 10 {
		t.Errorf("the round began under token %s, want 10", r.RoundToken)
	}
	attempt(true, finish(nil))
	if r.Rounds != 1 || r.RoundToken != 0 {
		t.Errorf("after the round: %+v", r.Status)
	}
	attempt(true, func(r record) []documents.Write { return c.cancelNow(r, now) })
	want := "1.1 w under 10 lost: worker 7 (w) was gone before it had finished; 1.2 w under 0 " +
		"returned: ; 1.3 w under 0 returned: worker 7 (w) could not begin: no store; 1.4 w under 20 " +
		"failed: it broke; 1.5 w under 30 done: ; 2.6 w under 40 cancelled: ; "
	if got := lines(r.History); got != want {
		t.Errorf("the history is\n%s, want\n%s", got, want)
	}
	r = after(t, c.retry(r, now)) // it goes on
	if got := lines(r.History); got != want {
		t.Errorf("after a retry by hand it is\n%s", got)
	}
}

func TestAHistoryIsBoundedAndKeepsTheLastAttempts(t *testing.T) {
	now := time.Now()
	c := changes{pathsOf("g")}
	r := record{Status: Status{ID: newID(now), Submitted: now, Due: now}}
	long := errors.New(strings.Repeat("x", 10*MaxError))
	for range 50 {
		_, writes := c.assign(r, r.Status, 7, strings.Repeat("w", 200))
		r = after(t, writes)
		r = after(t, c.start(r, r.Token+1, now))
		r = after(t, c.finish(r, Spec{Retries: MaxRetries}, outcome{err: long}, now))
	}
	if got := len(encode(r.History)); got > MaxHistory || got < MaxHistory/2 {
		t.Errorf("the history has %d bytes, and may have %d", got, MaxHistory)
	}
	if last := r.History[len(r.History)-1]; last.Attempt != 50 {
		t.Errorf("the last attempt is %d", last.Attempt)
	}
}

// A worker on a machine without time zones must not end a job that repeats as if it were done.
func TestAJobWhoseZoneIsUnknownFailsAndSaysSo(t *testing.T) {
	now := time.Now()
	r := record{Status: Status{ID: newID(now), State: Running, Submitted: now, Due: now}}
	spec := Spec{Every: "CRON_TZ=Nowhere/Unknown 0 3 * * *"}
	got := after(t, (changes{pathsOf("g")}).finish(r, spec, outcome{}, now))
	if got.State != Failed || !strings.Contains(got.Error, "it does not start again: ") {
		t.Errorf("%+v", got.Status)
	}
}
