package check

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ringfence/ringfence/lab/history"
)

// ack is a moment when some process knew that a store had accepted a token.
type ack struct {
	at   int64
	age  age
	what string
	top  int // index of the ack with the newest token so far
}

// acks are those of one store, by time.
type acks []ack

// acksOf collects every Return of an accepted operation and every Ready, which says that the mark was raised on every store.
// All of them come after the fact, so that what was invoked later was sent later.
func (r *run) acksOf(store string) acks {
	var all acks
	for _, o := range r.of(store) {
		if o.ok() {
			all = append(all, ack{at: o.returned, age: o.age, what: "acknowledged " + string(o.do) + " " + o.id})
		}
	}
	for _, t := range r.ages.Terms {
		if t.State == history.Ready {
			all = append(all, ack{at: t.At, age: t.Age, what: t.Process + " was ready"})
		}
	}
	slices.SortStableFunc(all, func(a, b ack) int { return cmp.Compare(a.at, b.at) })
	for i := range all {
		all[i].top = i
		if i > 0 && !all[i].age.Newer(all[all[i-1].top].age) {
			all[i].top = all[i-1].top
		}
	}
	return all
}

// before is the newest token that was known to be accepted before a time; false when there was none.
func (a acks) before(at int64) (ack, bool) {
	n := sort.Search(len(a), func(i int) bool { return a[i].at >= at })
	if n == 0 {
		return ack{}, false
	}
	return a[a[n-1].top], true
}

// overtaken is the acknowledgement of a newer token that an operation began after; false when there was none.
func (r *run) overtaken(o *op) (ack, bool) {
	newer, ok := r.acks[o.store].before(o.invoked)
	return newer, ok && newer.age.Newer(o.age)
}

// acknowledged is I2: nothing is accepted under a token that was sent after a newer one had been accepted.
//
// It is sound though processes freeze: the newer token was accepted no later than its Return says, the older operation
// was sent no earlier than its Invoke says. An operation that was under way during the election is not judged here.
//
// What such an operation of a task wrote is a checkpoint, and no row of the ledger: it is counted here.
func (r *run) acknowledged(f *findings, _ *Figures) {
	for _, o := range r.ops {
		if !o.ok() {
			continue
		}
		if newer, ok := r.overtaken(o); ok {
			if o.do == history.Write && len(r.published) > 0 {
				r.staleCheckpoints++
			}
			f.atOp("I2", o, "%s: %s %s was accepted under token %s, and had been sent %s after %s under the newer token %s",
				o.store, o.do, o.id, o.token, between(newer.at, o.invoked), newer.what, newer.age.Token)
		}
	}
}
