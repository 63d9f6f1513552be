package check

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ringfence/ringfence/lab/history"
)

// ack is a moment at which some process knew that a store had accepted a token.
type ack struct {
	at     int64
	age    age
	what   string
	newest int // index of the ack with the newest token so far
}

// acks are those of one store, by time.
type acks []ack

// acksOf collects the Return of every accepted operation and every Ready, which says that the mark
// was raised on every store. All of them come after the fact, so an operation that was invoked
// later was also sent later.
func (r *run) acksOf(store string) acks {
	var all acks
	for _, o := range r.of(store) {
		if o.ok() {
			what := "acknowledged " + string(o.do) + " " + o.id
			all = append(all, ack{at: o.returned, age: o.age, what: what})
		}
	}
	for _, t := range r.termsAbout(store) {
		if t.State == history.Ready {
			all = append(all, ack{at: t.At, age: t.Age, what: t.Process + " was ready"})
		}
	}
	all.sort()
	return all
}

// sort puts them in the order of time, and finds the newest until each.
func (a acks) sort() {
	slices.SortStableFunc(a, func(x, y ack) int { return cmp.Compare(x.at, y.at) })
	for i := range a {
		a[i].newest = i
		if i > 0 && !a[i].age.Newer(a[a[i-1].newest].age) {
			a[i].newest = a[i-1].newest
		}
	}
}

// before returns the newest token that was known to be accepted before a time; false if none was.
func (a acks) before(at int64) (ack, bool) {
	n := sort.Search(len(a), func(i int) bool { return a[i].at >= at })
	if n == 0 {
		return ack{}, false
	}
	return a[a[n-1].newest], true
}

// overtaken returns the acknowledgement of a newer token that came before the operation began;
// false if there was none.
func (r *run) overtaken(o *op) (ack, bool) {
	newer, ok := r.acks[o.store].before(o.invoked)
	return newer, ok && newer.age.Newer(o.age)
}

// acknowledged checks I2: nothing is accepted that was sent under a token after a newer token had
// been accepted.
//
// Frozen processes cannot make it wrong: the newer token was accepted no later than its Return
// says, and the older operation was sent no earlier than its Invoke says. It does not judge
// operations that were in flight during the election.
//
// Such an operation of a task writes a checkpoint and no row of the ledger, so it is counted here.
func (r *run) acknowledged(f *findings, _ *Figures) {
	for _, o := range r.ops {
		if !o.ok() {
			continue
		}
		if newer, ok := r.overtaken(o); ok {
			if o.do == history.Write && len(r.published) > 0 {
				r.staleCheckpoints++
			}
			f.atOp("I2", o, "%s: %s %s was accepted under token %s, but was sent %s after %s "+
				"under the newer token %s", o.store, o.do, o.id, o.token,
				between(newer.at, o.invoked), newer.what, newer.age.Token)
		}
	}
}
