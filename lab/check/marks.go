package check

import "github.com/ringfence/ringfence/lab/history"

// marks belongs to I1: a mark that a store reports is no older than any token that the store had
// accepted by then. A lost mark would show in the order of commits only if a stale write happened
// to come.
func (r *run) marks(f *findings, _ *Figures) {
	if r.header == nil || !r.header.Guarded {
		return
	}
	for _, e := range r.events {
		if e.Kind != history.Mark {
			continue
		}
		newest, ok := r.acks[e.Store].before(e.At)
		if ok && newest.age.Newer(r.terms.AgeAfter(e.Token, newest.age)) {
			f.atRun("I1", e.At, "", "the mark of %s is %s, though %s under token %s",
				e.Store, e.Token, newest.what, newest.age.Token)
		}
	}
}
