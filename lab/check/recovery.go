package check

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// recovery is I6: when all is healed, somebody leads and writes within the bound. After the coda, somebody else does.
//
// A run that was not carried out to its end, or in which a fault never ended, was not healed; nothing is demanded of it.
func (r *run) recovery(f *findings, figures *Figures) {
	healed, disturbed := r.healed()
	var first *op
	if disturbed {
		if first = r.firstAck(func(o *op) bool { return o.invoked > healed }); first != nil {
			figures.Recovery = history.Duration(first.returned - healed)
		}
	}
	if r.expect.Recover == 0 || !r.ended {
		return
	}
	if t, ok := r.unhealed(); ok {
		f.doubt("the fault %q has begun and never ended: whether the system recovers was not seen", t.name)
		return
	}
	if disturbed {
		r.writesAgain(f, first, healed)
	}
	r.afterCoda(f)
}

// healed is when the last fault before the coda had ended; false when there was none.
func (r *run) healed() (int64, bool) {
	last := int64(0)
	for _, t := range r.done() {
		if !t.coda() {
			last = max(last, t.end)
		}
	}
	return last, last != 0 && last != never
}

// writesAgain judges the first write since all was healed. It has to have been sent after that: one that had waited proves
// nothing. The time until its Return is an upper bound of the time until it was accepted.
func (r *run) writesAgain(f *findings, first *op, healed int64) {
	bound := time.Duration(r.expect.Recover)
	switch {
	case first == nil:
		f.atRun("I6", healed, "", "nothing was acknowledged that was sent after the last fault had ended; %s were allowed", bound)
	case first.returned-healed > int64(bound):
		f.atOp("I6", first, "the first write after the last fault was acknowledged %s after it had ended; %s were allowed",
			between(healed, first.returned), bound)
	case !r.ready(first.age):
		f.atOp("I6", first, "%s writes again under token %s, and nobody was ever ready under it", first.process, first.token)
	}
}

// firstAck is the acknowledged write that returned first, of those that a condition holds for; nil when there is none.
func (r *run) firstAck(holds func(*op) bool) *op {
	var first *op
	for _, o := range r.ops {
		if o.work() && o.ok() && holds(o) && (first == nil || o.returned < first.returned) {
			first = o
		}
	}
	return first
}

// afterCoda judges the last act. It lasts until the next leader has written, so a write counts that was sent before its end,
// if it was sent under a newer token than any before.
func (r *run) afterCoda(f *findings) {
	at := slices.IndexFunc(r.faults, fault.coda)
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
		f.atRun("I6", t.begin, "", "nobody else has written since the leader was deposed at the end of the run")
	case first.returned-t.end > int64(bound):
		f.atOp("I6", first, "the next leader's first write was acknowledged %s after the last act had ended; %s were allowed",
			between(t.end, first.returned), bound)
	case !r.ready(first.age):
		f.atOp("I6", first, "%s writes under token %s, and nobody was ever ready under it", first.process, first.token)
	}
}

func (r *run) unhealed() (fault, bool) {
	for _, t := range r.faults {
		if t.end == never && t.name != insideName {
			return t, true
		}
	}
	return fault{}, false
}

func (r *run) ready(a age) bool {
	return slices.ContainsFunc(r.ages.Terms, func(t history.Dated) bool { return t.State == history.Ready && t.Age == a })
}
