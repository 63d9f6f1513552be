package check

import (
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/ringfence/ringfence/lab/history"
)

// modelled are the operations of a store, as the model has them.
//
// What the evidence says to have landed was accepted, though its process never heard so. Everything else that was not
// acknowledged has left nothing, but opening its session may have lifted the mark: it counts as an act that perhaps does.
// Lanes are the rows of porcupine's page; new ones are added.
func (r *run) modelled(store string, lanes map[string]int) []porcupine.Operation {
	landed := r.landed(store)
	var all []porcupine.Operation
	for _, o := range r.of(store) {
		entry := porcupine.Operation{Input: act{o, store, o.do, o.age}, Call: o.invoked, Return: o.returned}
		end, proved := landed[o]
		process := o.process
		switch {
		case o.ok():
			entry.Output = accepted
		case o.outcome == history.Stale:
			entry.Output = rejected
		case o.outcome == history.Unknown && proved: // the process may have gone on: a lane of its own
			entry.Output, entry.Return, process = accepted, end, "unanswered "+o.id
		default:
			continue
		}
		entry.ClientId = lane(lanes, process)
		all = append(all, entry)
	}
	for _, p := range r.lifts(store) {
		p.ClientId = lane(lanes, "perhaps "+store+" "+p.Input.(act).age.Token.String())
		all = append(all, p)
	}
	return all
}

func lane(lanes map[string]int, name string) int {
	if _, ok := lanes[name]; !ok {
		lanes[name] = len(lanes)
	}
	return lanes[name]
}

// landed are the operations that a store's evidence has, and a time by which each had landed: it was committed before what
// comes after it in the database's order, and that was committed before it was acknowledged.
func (r *run) landed(store string) map[*op]int64 {
	all := map[*op]int64{}
	end := r.last() + 1
	for _, w := range slices.Backward(r.rows[store]) {
		if w.op == nil || w.Kind != history.Evidence {
			continue
		}
		if w.op.ok() {
			end = min(end, w.op.returned)
		}
		all[w.op] = max(end, w.op.invoked)
	}
	return all
}

// last is when the last event of all was.
func (r *run) last() int64 { return r.events[len(r.events)-1].At }

// lifts are the acts that perhaps lifted the mark, one of each token: the second of a token changes nothing that the first
// would not, if that begins no later. Such an act ends with the first accepted operation under its token or a newer one that
// returns after it began: the mark is that high then, so that an order which has the act later has it right there as well.
func (r *run) lifts(store string) []porcupine.Operation {
	since := map[age]int64{}
	for _, o := range r.of(store) {
		if !o.ok() {
			from(since, o.age, o.invoked)
		}
	}
	for a, at := range r.unseen(store) {
		from(since, a, at)
	}
	var all []porcupine.Operation
	for _, a := range slices.SortedFunc(maps.Keys(since), age.Compare) {
		end := r.raisedBy(store, a)
		if end < since[a] {
			continue // it was as high before
		}
		all = append(all, porcupine.Operation{
			Input: act{store: store, do: history.Raise, age: a}, Output: perhaps, Call: since[a], Return: end,
		})
	}
	return all
}

// from keeps the earliest time of each token.
func from(since map[age]int64, a age, at int64) {
	if known, ok := since[a]; !ok || at < known {
		since[a] = at
	}
}

// raisedBy is when an operation under a token, or a newer one, was first known to be accepted by a store.
func (r *run) raisedBy(store string, a age) int64 {
	end := r.last() + 1
	for _, o := range r.of(store) {
		if o.ok() && !a.Newer(o.age) {
			end = min(end, o.returned)
		}
	}
	return end
}

// unseen are the tokens that a store has taken without a raise in the history, at any time: leader run raises the mark before
// its child can say anything, even that the term is won, and may end before that.
func (r *run) unseen(store string) map[age]int64 {
	since, raised := map[age]int64{}, map[age]bool{}
	start := r.events[0].At
	for _, o := range r.of(store) {
		if o.do == history.Raise {
			raised[o.age] = true
		} else if o.ok() {
			since[o.age] = start
		}
	}
	for _, t := range r.ages.Terms {
		if t.State == history.Ready {
			since[t.Age] = start
		}
	}
	for _, e := range r.events {
		if e.Kind == history.Mark && e.Store == store && !r.ages.Know(e.Token) {
			since[r.ages.After(e.Token, age{})] = start
		}
	}
	maps.DeleteFunc(since, func(a age, _ int64) bool { return raised[a] })
	return since
}
