package check

import "github.com/ringfence/ringfence/lab/history"

// marks belongs to I1: a mark that a store tells of is no older than any token that it had accepted by then. A mark that was
// lost would show in the order of commits only if somebody stale happened to come.
func (r *run) marks(f *findings, _ *Figures) {
	if r.header == nil || !r.header.Guarded {
		return
	}
	for _, e := range r.events {
		if e.Kind != history.Mark {
			continue
		}
		top, ok := r.acks[e.Store].before(e.At)
		if ok && top.age.Newer(r.ages.After(e.Token, top.age)) {
			f.atRun("I1", e.At, "", "the mark of %s is %s, though %s under token %s", e.Store, e.Token, top.what, top.age.Token)
		}
	}
}
