package check

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// takeOver: once a fault has begun that hits a leader, a later leader writes to each store within
// the bound, whether the fault has ended or not. The final phase demands nothing here (recovery).
func (r *run) takeOver(f *findings) {
	if r.expect.TakeOver == 0 {
		return
	}
	judged := false
	for _, t := range r.injected() {
		for process, since := range r.leaders(t.begin) {
			if t.isFinalPhase() || !t.hits(process) {
				continue
			}
			judged = true
			for _, store := range r.storesBefore(t.begin) {
				r.takesOver(f, t, since, store)
			}
		}
	}
	if !judged {
		f.doubt("no fault has hit a leader, so nothing shows whether another one takes over in time")
	}
}

// takesOver judges the first write to a store under a later token than that of the leader.
func (r *run) takesOver(f *findings, hit fault, since history.TermEvent, store string) {
	bound := time.Duration(r.expect.TakeOver)
	first := r.firstAck(func(o *op) bool {
		return storeOf(o) == store && o.returned > hit.begin && o.age.Newer(since.Age)
	})
	switch {
	case first == nil:
		f.atRun("expect", hit.begin, since.Process,
			"no later leader wrote to %s after %q had begun; the bound is %s", store, hit.name, bound)
	case first.returned-hit.begin > int64(bound):
		f.atOp("expect", first, "the next leader's first write to %s was acknowledged %s after %q had "+
			"begun; the bound is %s", store, between(hit.begin, first.returned), hit.name, bound)
	}
}
