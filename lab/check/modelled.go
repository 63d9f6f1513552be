package check

import (
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/ringfence/ringfence/lab/history"
)

// modelled returns the operations of a store for the model.
//
// An operation that is in the evidence was accepted, though its process may not know. Every other
// operation that was not acknowledged has left nothing, but opening its session may have raised the
// mark, so it counts as one that maybe does. Lanes are the rows of porcupine's page; modelled adds
// new ones.
func (r *run) modelled(store string, lanes map[string]int) []porcupine.Operation {
	committed := r.committed(store)
	var all []porcupine.Operation
	for _, o := range r.of(store) {
		entry := porcupine.Operation{
			Input: input{o, store, o.do, o.age}, Call: o.invoked, Return: o.returned,
		}
		end, proved := committed[o]
		process := o.process
		switch {
		case o.ok():
			entry.Output = accepted
		case o.outcome == history.Stale && r.othersWroteOn(o):
			continue
		case o.outcome == history.Stale:
			entry.Output = rejected
		case o.outcome == history.Unknown && proved: // its process may go on: a lane for it alone
			entry.Output, entry.Return, process = accepted, end, "unanswered "+o.id
		default:
			continue
		}
		entry.ClientId = lane(lanes, process)
		all = append(all, entry)
	}
	for _, p := range r.possibleRaises(store) {
		p.ClientId = lane(lanes, "maybe "+store+" "+p.Input.(input).age.Token.String())
		all = append(all, p)
	}
	return all
}

// othersWroteOn reports whether a session of another process wrote under the same token after an
// operation was refused as stale. A guard ends older sessions one after another, so while a newer
// token raises the mark some are refused and others still write. The refusal then says nothing
// about when the mark rose. A write after the raise is found by its own answer.
func (r *run) othersWroteOn(refused *op) bool {
	return slices.ContainsFunc(r.of(refused.store), func(o *op) bool {
		return o.ok() && o.age == refused.age && o.process != refused.process &&
			o.returned >= refused.returned
	})
}

func lane(lanes map[string]int, name string) int {
	if _, ok := lanes[name]; !ok {
		lanes[name] = len(lanes)
	}
	return lanes[name]
}

// committed returns the operations in a store's evidence, each with a time by which it was
// committed. It was committed before those that follow it in the database's order, and each of them
// was committed before it was acknowledged.
func (r *run) committed(store string) map[*op]int64 {
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

// last returns the time of the last event.
func (r *run) last() int64 { return r.events[len(r.events)-1].At }

// possibleRaises returns the operations that maybe raised the mark, one for each token: a second
// one of a token changes nothing that the first would not, if the first begins no later. It ends
// with the first accepted operation under its token or a newer one that returns after it began. By
// then the mark is that high, so in an order that has it later it can as well come right there.
func (r *run) possibleRaises(store string) []porcupine.Operation {
	since := r.possiblySince(store)
	for _, o := range r.of(store) {
		if !o.ok() {
			keepEarliest(since, o.age, o.invoked)
		}
	}
	var all []porcupine.Operation
	for _, a := range slices.SortedFunc(maps.Keys(since), age.Compare) {
		end := r.raisedBy(store, a)
		if end < since[a] {
			continue // the mark was that high before
		}
		if !r.refusedWithin(store, a, since[a], end) {
			continue // it explains nothing, and each one doubles the orders to search
		}
		all = append(all, porcupine.Operation{
			Input:  input{store: store, do: history.Raise, age: a},
			Output: maybe, Call: since[a], Return: end,
		})
	}
	return all
}

// refusedWithin reports whether an operation under an older token was refused as stale, and
// overlaps a time. Nothing else needs a raise that maybe was made then: one that came later finds
// the mark that high.
func (r *run) refusedWithin(store string, a age, from, to int64) bool {
	return slices.ContainsFunc(r.of(store), func(o *op) bool {
		return o.outcome == history.Stale && a.Newer(o.age) && o.returned >= from && o.invoked <= to
	})
}

// keepEarliest keeps the earliest time of each token.
func keepEarliest(since map[age]int64, a age, at int64) {
	if earliest, ok := since[a]; !ok || at < earliest {
		since[a] = at
	}
}

// raisedBy returns when it was first known that a store had accepted an operation under a token or
// a newer one.
func (r *run) raisedBy(store string, a age) int64 {
	end := r.last() + 1
	for _, o := range r.of(store) {
		if o.ok() && !a.Newer(o.age) {
			end = min(end, o.returned)
		}
	}
	return end
}

// unrecordedRaises returns the tokens that a store accepted, at any time, without a raise in the
// history. leader run raises the mark before its child can report anything, even that the term is
// won, and may end before that.
func (r *run) unrecordedRaises(store string) map[age]int64 {
	since, raised := map[age]int64{}, map[age]bool{}
	start := r.events[0].At
	for _, o := range r.of(store) {
		if o.do == history.Raise {
			raised[o.age] = true
		} else if o.ok() {
			since[o.age] = start
		}
	}
	for _, t := range r.termsAbout(store) {
		if t.State == history.Ready {
			since[t.Age] = start
		}
	}
	for _, e := range r.marked[store] {
		if !r.terms.Has(e.Token) {
			since[r.terms.AgeAfter(e.Token, age{})] = start
		}
	}
	maps.DeleteFunc(since, func(a age, _ int64) bool { return raised[a] })
	return since
}
