package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/report"
)

// without is the same run with the guard off.
func without(r *run) check.Result {
	h := *r.result.Header
	h.Guarded, h.Command, h.Started = false, h.Command+" --unguarded", h.Started.Add(time.Minute)
	return check.Result{
		Verdict: check.Invalid, Header: &h, Figures: check.Figures{
			StaleAttempts: 156, StaleAccepted: 155, Changes: 2,
		},
	}
}

func TestTheRunOfTheSameSeedIsBesideTheOther(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, events []history.Event, r check.Result) string {
		t.Helper()
		run := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(run, 0o755))
		must.Succeed(t, report.Save(run, events, r))
		return filepath.Join(run, report.PageFile)
	}
	r := valid()
	longer := without(r)
	longer.Header.Command = r.result.Header.Command + " --time 5m0s --unguarded"
	longer.Figures.StaleAccepted = 98765
	put("c", nil, longer) // it differs in more than the guard
	with := put("a", r.events, r.result)
	if page, _ := os.ReadFile(with); strings.Contains(string(page), "98765") {
		t.Error("another run is beside it")
	}
	off := put("b", nil, without(r))
	p := open(t, with, 1280, 800)
	p.WantText("#beside", "The same seed without the guard", "155", "with the guard, this run")
	want(p, `document.querySelector('#beside a').getAttribute('href')`, "../b/report.html")
	want(p, `document.documentElement.scrollWidth > innerWidth`, false)
	page, err := os.ReadFile(off)
	if err != nil || !strings.Contains(string(page), "The same seed with the guard") ||
		!strings.Contains(string(page), `href="../a/report.html"`) {
		t.Errorf("%v: the page of the run without the guard does not show the other", err)
	}
	put("a", r.events, r.result) // as after lab report
	if page, _ := os.ReadFile(with); strings.Count(string(page), "The same seed") != 1 {
		t.Error("the other run is not on the page once")
	}

	must.Succeed(t, report.Index(dir))
	index, err := os.ReadFile(filepath.Join(dir, report.IndexFile))
	if err != nil ||
		!strings.Contains(string(index), `<a href="b/report.html">guard off</a>: 155 stale accepted`) ||
		!strings.Contains(string(index), `<a href="a/report.html">guard on</a>: 0 stale accepted`) {
		t.Errorf("%v, the index:\n%s", err, index)
	}
}

func TestWhatTheStaleAttemptsWereToldIsExplained(t *testing.T) {
	r := valid()
	r.result.Figures.StaleAttempts += 5
	r.result.Figures.StaleAnswers = []check.Answers{
		{Outcome: history.Unknown, Count: 3, Example: "EOF"},
		{Outcome: history.Failed, Count: 2, Example: "connection refused"},
	}
	p := open(t, save(t, r.events, r.result), 1280, 800)
	p.WantText(".tiles", "5 had another outcome")
	p.WantText("#answers", "refused as stale", "no answer", "they hold none of these writes", "such "+
		"as: EOF", "not sent",
		"connection refused")
	want(p, `document.querySelectorAll('#answers tbody tr').length`, 3)
	plain := valid()
	p = open(t, save(t, plain.events, plain.result), 1280, 800)
	want(p, `document.querySelectorAll('#answers').length`, 0)
}

func TestTheVerdictOnAControlIsWhetherItsBugWasCaught(t *testing.T) {
	bad, _, _ := invalid()
	p := open(t, save(t, bad.events, bad.result), 1280, 800)
	p.WantText("#verdict.good", "✓", "CAUGHT: seeded bug")
	p.WantText(".sentence", "Caught by I1, model", "2 stale writes got in")
	missed := valid()
	missed.result.Header.Control = "memory-mark"
	p = open(t, save(t, missed.events, missed.result), 1280, 800)
	p.WantText("#verdict.bad", "NOT CAUGHT")
	other := valid()
	other.result.Header.Control, other.result.Verdict = "memory-mark", check.Invalid
	other.result.Problems = []check.Problem{{Invariant: "I6", Text: "nobody leads"}}
	p = open(t, save(t, other.events, other.result), 1280, 800)
	p.WantText("#verdict.bad", "NOT CAUGHT") // by something else
}
