package check

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// rightAfter is how long after a fault an operation still meets it, where the header names no session: what a fault does to
// a system (a session that expires, a server that starts) outlasts it.
const rightAfter = time.Second

// coverage is I7: faults and writes overlapped, leadership changed, and something stale was tried. What is missing is a
// doubt: such a run has put nothing to the test.
func (r *run) coverage(f *findings, figures *Figures) {
	figures.Changes = r.changes(never)
	if want := max(1, r.expect.Changes); figures.Changes < want {
		f.doubt("leadership changed %d times; a run counts from %d on", figures.Changes, want)
	}
	for _, o := range r.ops {
		if _, late := r.overtaken(o); late || o.outcome == history.Stale {
			figures.StaleAttempts++
		}
	}
	if want := max(1, r.expect.Stale); figures.StaleAttempts < want {
		f.doubt("%d attempts were made under a stale token; a run counts from %d on", figures.StaleAttempts, want)
	}
	r.disturbed(f)
}

// changes is how many terms have become ready before a time, less the first.
func (r *run) changes(before int64) int {
	terms := map[age]bool{}
	for _, t := range r.ages.Terms {
		if t.State == history.Ready && t.At < before {
			terms[t.Age] = true
		}
	}
	return max(0, len(terms)-1)
}

// disturbed asks whether there was load before the first fault, and whether the faults met any.
func (r *run) disturbed(f *findings) {
	done := r.done()
	if len(done) == 0 {
		f.doubt("there was no fault")
		return
	}
	before := 0
	for _, o := range r.ops {
		if o.work() && o.ok() && o.returned < done[0].begin {
			before++
		}
	}
	if want := max(1, r.expect.Before); before < want {
		f.doubt("%d writes were acknowledged before the first fault; a run counts from %d on", before, want)
	}
	if !slices.ContainsFunc(done, r.met) {
		f.doubt("no operation was under way while any fault lasted, or right after")
	}
}

// met tells that an operation was under way during a fault.
func (r *run) met(t fault) bool {
	grace := int64(rightAfter)
	if r.header != nil && r.header.Session > 0 {
		grace = int64(r.header.Session)
	}
	return slices.ContainsFunc(r.ops, func(o *op) bool {
		return o.invoked <= t.end+grace && o.returned >= t.begin && (o.returned != never || o.invoked >= t.begin)
	})
}
