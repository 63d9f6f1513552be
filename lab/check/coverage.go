package check

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// defaultGrace is how long the effects of a fault last after its end, such as a session that
// expires or a server that starts. It applies if the header names no session timeout.
const defaultGrace = time.Second

// coverage checks I7: faults and writes overlapped, leadership changed, and there were stale
// attempts. Anything missing is a doubt: such a run tested nothing.
func (r *run) coverage(f *findings, figures *Figures) {
	figures.Changes = r.changes(history.Never)
	if r.aboutJobs() {
		figures.Changes = r.reruns()
		r.jobsCovered(f, figures)
	}
	if want := max(1, r.expect.Changes); figures.Changes < want {
		f.doubt("leadership changed %d times; a run counts from %d on", figures.Changes, want)
	}
	for _, o := range r.ops {
		if _, late := r.overtaken(o); late || o.outcome == history.Stale {
			figures.StaleAttempts++
			figures.answered(o)
		}
	}
	if want := max(1, r.expect.Stale); figures.StaleAttempts < want {
		f.doubt("%d attempts were made under a stale token; a run counts from %d on",
			figures.StaleAttempts, want)
	}
	r.faultsMetLoad(f)
}

// answered counts what a stale attempt was told, unless it was refused as stale.
func (f *Figures) answered(o *op) {
	if o.outcome == history.Stale {
		return
	}
	i := slices.IndexFunc(f.StaleAnswers, func(a Answers) bool { return a.Outcome == o.outcome })
	if i < 0 {
		i = len(f.StaleAnswers)
		f.StaleAnswers = append(f.StaleAnswers, Answers{Outcome: o.outcome, Example: o.text})
	}
	f.StaleAnswers[i].Count++
}

// changes counts the terms that became ready before a time, without the first.
func (r *run) changes(before int64) int {
	ready := map[age]bool{}
	for _, t := range r.terms.Events {
		if t.State == history.Ready && t.At < before {
			ready[t.Age] = true
		}
	}
	return max(0, len(ready)-1)
}

// faultsMetLoad checks that there was load before the first fault and during some fault.
func (r *run) faultsMetLoad(f *findings) {
	injected := r.injected()
	if len(injected) == 0 {
		f.doubt("there was no fault")
		return
	}
	before := 0
	for _, o := range r.ops {
		if o.work() && o.ok() && o.returned < injected[0].begin {
			before++
		}
	}
	if want := max(1, r.expect.Before); before < want {
		f.doubt("%d writes were acknowledged before the first fault; a run counts from %d on",
			before, want)
	}
	if !slices.ContainsFunc(injected, r.metLoad) {
		f.doubt("no operation was in flight during any fault, or right after it")
	}
}

// metLoad reports whether an operation was in flight during a fault.
func (r *run) metLoad(t fault) bool {
	grace := int64(defaultGrace)
	if r.header != nil && r.header.Session > 0 {
		grace = int64(r.header.Session)
	}
	return slices.ContainsFunc(r.ops, func(o *op) bool {
		certain := o.returned != history.Never || o.invoked >= t.begin
		return o.invoked <= t.end+grace && o.returned >= t.begin && certain
	})
}
