package check

import (
	"cmp"
	"slices"

	"github.com/ringfence/ringfence/lab/history"
)

// falseRefusals are stale answers though nobody had presented a newer token to the store, or could have. The last word of a
// session that was ended is such an answer too, though it leaves the outcome unknown.
func (r *run) falseRefusals(f *findings, figures *Figures) {
	for _, store := range r.stores() {
		since := r.unseen(store)
		for _, o := range r.of(store) {
			from(since, o.age, o.invoked)
		}
		highest := presented(since)
		for _, o := range r.of(store) {
			n, _ := slices.BinarySearchFunc(highest, o.returned, func(p presentation, at int64) int { return cmp.Compare(p.at, at) })
			if o.calledStale() && (n == 0 || !highest[n-1].top.Newer(o.age)) {
				figures.FalseRefusals++
				f.atOp("model", o, "%s: %s %s under token %s was refused as stale, and nobody had presented a newer token until then: %q",
					store, o.do, o.id, o.token, o.text)
			}
		}
	}
}

// presentation is when a store was shown a token first, and the newest one of all until then.
type presentation struct {
	at  int64
	top age
}

func presented(since map[age]int64) []presentation {
	var all []presentation
	for a, at := range since {
		all = append(all, presentation{at, a})
	}
	slices.SortFunc(all, func(a, b presentation) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(all); i++ {
		all[i].top = history.Newest(all[i].top, all[i-1].top)
	}
	return all
}
