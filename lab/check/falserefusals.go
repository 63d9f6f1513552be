package check

import (
	"cmp"
	"slices"

	"github.com/ringfence/ringfence/lab/history"
)

// falseRefusals finds stale answers that came although nobody had presented a newer token to the
// store, or could have. It also counts an answer that said so when it ended a session, though that
// leaves the outcome unknown.
func (r *run) falseRefusals(f *findings, figures *Figures) {
	for _, store := range r.stores() {
		since := r.possiblySince(store)
		for _, o := range r.of(store) {
			keepEarliest(since, o.age, o.invoked)
		}
		all := presentations(since)
		for _, o := range r.of(store) {
			n, _ := slices.BinarySearchFunc(all, o.returned, func(p presentation, at int64) int {
				return cmp.Compare(p.at, at)
			})
			if o.calledStale() && (n == 0 || !all[n-1].newest.Newer(o.age)) {
				figures.FalseRefusals++
				f.atOp("model", o, "%s: %s %s under token %s was refused as stale, "+
					"but nobody had presented a newer token until then: %q",
					store, o.do, o.id, o.token, o.text)
			}
		}
	}
}

// presentation is when a store was first shown a token, and the newest of all tokens until then.
type presentation struct {
	at     int64
	newest age
}

func presentations(since map[age]int64) []presentation {
	var all []presentation
	for a, at := range since {
		all = append(all, presentation{at, a})
	}
	slices.SortFunc(all, func(a, b presentation) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(all); i++ {
		all[i].newest = history.Newest(all[i].newest, all[i-1].newest)
	}
	return all
}
