package check

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// recovery checks I6: once all faults have ended, somebody leads and writes within the bound, to
// each store that was written to before. After the final phase it is somebody else.
//
// It demands nothing of a run that was not completed or in which a fault never ended.
func (r *run) recovery(f *findings, figures *Figures) {
	healed, disturbed := r.healed()
	first := r.firstAck(func(o *op) bool { return o.invoked > healed })
	if disturbed && first != nil {
		figures.Recovery = history.Duration(first.returned - healed)
	}
	if r.expect.Recover == 0 || !r.ended {
		return
	}
	if t, ok := r.unhealed(); ok {
		f.doubt("the fault %q has begun and never ended, so nothing shows whether the system "+
			"recovers", t.name)
		return
	}
	if disturbed {
		for _, store := range r.storesBefore(healed) {
			r.writesAgain(f, store, healed)
		}
	}
	r.afterFinalPhase(f)
}

// storesBefore returns the stores in which a write was acknowledged before that time. A job may be
// the only one that ever writes for its resource, so resources do not count.
func (r *run) storesBefore(at int64) []string {
	stores := map[string]bool{}
	for _, o := range r.ops {
		if o.work() && o.ok() && o.returned < at {
			stores[storeOf(o)] = true
		}
	}
	return slices.Sorted(maps.Keys(stores))
}

// storeOf returns the store of an operation, without the resource.
func storeOf(o *op) string {
	store, _, _ := strings.Cut(o.store, " ")
	return store
}

// healed returns when the last fault before the final phase ended; false if there was none.
func (r *run) healed() (int64, bool) {
	last := int64(0)
	for _, t := range r.injected() {
		if !t.isFinalPhase() {
			last = max(last, t.end)
		}
	}
	return last, last != 0 && last != history.Never
}

// writesAgain judges the first write to a store after all faults. It has to have been sent after
// them: one that had waited proves nothing. The time until its Return is an upper bound of the time
// until it was accepted.
func (r *run) writesAgain(f *findings, store string, healed int64) {
	bound := time.Duration(r.expect.Recover)
	first := r.firstAck(func(o *op) bool { return storeOf(o) == store && o.invoked > healed })
	switch {
	case first == nil:
		f.atRun("I6", healed, "", "no write to %s was acknowledged that was sent after the last fault "+
			"had ended; the bound is %s", store, bound)
	case first.returned-healed > int64(bound):
		f.atOp("I6", first, "the first write to %s after the last fault was acknowledged %s after its "+
			"end; the bound is %s", store, between(healed, first.returned), bound)
	case !r.ready(first.age):
		f.atOp("I6", first, "%s writes again under token %s, and nobody was ever ready under it",
			first.process, first.token)
	}
}

// firstAck returns the acknowledged write that returned first among those that satisfy a condition;
// nil if there is none.
func (r *run) firstAck(holds func(*op) bool) *op {
	var first *op
	for _, o := range r.ops {
		if o.work() && o.ok() && holds(o) && (first == nil || o.returned < first.returned) {
			first = o
		}
	}
	return first
}

// afterFinalPhase judges the final phase. It lasts until the next leader has written, so a write
// counts that was sent before its end, if it was sent under a newer token than any before.
func (r *run) afterFinalPhase(f *findings) {
	at := slices.IndexFunc(r.faults, fault.isFinalPhase)
	if at < 0 {
		return
	}
	t, bound := r.faults[at], time.Duration(r.expect.Recover)
	var before age
	for _, o := range r.ops {
		if o.ok() && o.returned < t.begin {
			before = history.Newest(before, o.age)
		}
	}
	first := r.firstAck(func(o *op) bool { return o.invoked > t.begin && o.age.Newer(before) })
	switch {
	case first == nil:
		f.atRun("I6", t.begin, "", "nobody else has written since the leader was deposed in the "+
			"final phase")
	case first.returned-t.end > int64(bound):
		f.atOp("I6", first, "the next leader's first write was acknowledged %s after the final "+
			"phase; the bound is %s", between(t.end, first.returned), bound)
	case !r.ready(first.age):
		f.atOp("I6", first, "%s writes under token %s, and nobody was ever ready under it",
			first.process, first.token)
	}
}

func (r *run) unhealed() (fault, bool) {
	for _, t := range r.faults {
		if t.end == history.Never && t.name != history.Inside {
			return t, true
		}
	}
	return fault{}, false
}

func (r *run) ready(a age) bool {
	return slices.ContainsFunc(r.terms.Events, func(t history.TermEvent) bool {
		return t.State == history.Ready && t.Age == a
	})
}
