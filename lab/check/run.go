package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// run is a parsed history.
type run struct {
	events []history.Event // by time
	header *history.Header
	expect history.Expect // of the header; zero if there is none
	ended  bool
	broken []string // why this is not a history

	ops      []*op            // by invocation
	byStore  map[string][]*op // the same
	byID     map[string]*op
	attempts map[attempt]*op // the last one of each
	terms    history.Terms
	termsOf  map[string][]history.TermEvent // of each resource; "" is the one resource of the run
	marked   map[string][]history.Event     // Mark events of a store
	faults   []fault                        // by begin

	rows      map[string][]row // Evidence and synchronous Effects of a store, in commit order
	effects   []history.Event  // by place
	published []history.Event  // by place
	acks      map[string]acks  // of each store

	jobOps   []*jobOp // by invocation
	jobByID  map[string]*jobOp
	jobsLeft []history.Event // what the coordinator has after the run

	staleCheckpoints int // that were acknowledged
}

// attempt identifies the attempts at one step in one term.
type attempt struct {
	key   string
	token fence.Token
}

// row is what a database holds, with the operation that wrote it if that is known. For an effect it
// is the last attempt at the step under its token: the database does not say which one it was.
type row struct {
	history.Event
	op *op
}

func parse(events []history.Event) *run {
	r := &run{
		byID: map[string]*op{}, attempts: map[attempt]*op{}, rows: map[string][]row{},
		acks: map[string]acks{}, jobByID: map[string]*jobOp{}, byStore: map[string][]*op{},
		termsOf: map[string][]history.TermEvent{}, marked: map[string][]history.Event{},
	}
	r.events = slices.Clone(events)
	// Processes write into one file without coordination. Events of one instant keep their order.
	slices.SortStableFunc(r.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i, e := range r.events {
		r.events[i].Store = registerOf(e)
	}
	r.terms = history.ReadTerms(r.events)
	for _, t := range r.terms.Events {
		r.termsOf[string(t.Resource)] = append(r.termsOf[string(t.Resource)], t)
	}
	for _, e := range r.events {
		r.add(e)
	}
	r.sortRows()
	r.faults = faults(r.events)
	for _, store := range r.stores() {
		r.acks[store] = r.acksOf(store)
	}
	return r
}

// registerOf returns the name of the mark that an event is about. Each resource has its own in each
// store, and is judged separately: by the name of the store, if it is the one resource of the run.
func registerOf(e history.Event) string {
	if e.Store == "" || e.Resource == "" {
		return e.Store
	}
	return e.Store + " " + string(e.Resource)
}

// termsAbout returns the terms of the resource of a register. A term without a resource is of the
// one resource of the run.
func (r *run) termsAbout(register string) []history.TermEvent {
	_, resource, _ := strings.Cut(register, " ")
	return r.termsOf[resource]
}

func (r *run) add(e history.Event) {
	if e.Do.AboutJobs() {
		r.jobStep(e)
		return
	}
	switch e.Kind {
	case history.Run:
		r.header = e.Header
		if e.Header != nil {
			r.expect = e.Header.Expect
		}
	case history.End:
		r.ended = true
	case history.Invoke:
		r.invoke(e)
	case history.Return:
		r.answer(e)
	case history.Effect:
		r.effects = append(r.effects, e)
	case history.Mark:
		r.marked[e.Store] = append(r.marked[e.Store], e)
	case history.Job:
		r.jobsLeft = append(r.jobsLeft, e)
	case history.Publish:
		r.published = append(r.published, e)
	}
}

func (r *run) invoke(e history.Event) {
	if r.byID[e.Op] != nil {
		r.breaks("operation %q was invoked twice: names of operations must be unique", e.Op)
		return
	}
	o := &op{
		id: e.Op, process: e.Process, store: e.Store, key: e.Key, do: e.Do, token: e.Token,
		attempt: e.Attempt,
		age:     r.terms.AgeOf(e.Process, e.Token, e.At), outcome: history.Unknown,
		invoked: e.At, returned: history.Never,
	}
	r.byID[e.Op] = o
	if e.Do == history.Step {
		r.attempts[attempt{e.Key, e.Token}] = o
	}
	r.ops = append(r.ops, o)
	r.byStore[e.Store] = append(r.byStore[e.Store], o)
}

func (r *run) answer(e history.Event) {
	o := r.byID[e.Op]
	switch {
	case o == nil:
		r.breaks("operation %q has returned and was never invoked: lines are missing", e.Op)
	case o.returned != history.Never:
		r.breaks("operation %q has returned twice", e.Op)
	default:
		o.returned, o.outcome, o.text = e.At, e.Outcome, e.Text
	}
}

func (r *run) breaks(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

// sortRows puts what the databases hold in commit order. Asynchronous effects are no rows: nothing
// fences them.
func (r *run) sortRows() {
	for _, e := range r.events {
		if e.Kind == history.Evidence || e.Kind == history.Effect && e.Sync {
			r.rows[e.Store] = append(r.rows[e.Store], r.rowOf(e))
		}
	}
	place := func(a, b history.Event) int { return cmp.Compare(a.Place, b.Place) }
	for _, rows := range r.rows {
		slices.SortStableFunc(rows, func(a, b row) int { return place(a.Event, b.Event) })
	}
	slices.SortStableFunc(r.effects, place)
	slices.SortStableFunc(r.published, place)
}

func (r *run) rowOf(e history.Event) row {
	if e.Kind == history.Effect {
		return row{e, r.attempts[attempt{e.Key, e.Token}]}
	}
	return row{e, r.byID[e.Op]}
}

// stores returns those that operations were sent to, or that hold something.
func (r *run) stores() []string {
	all := map[string]bool{}
	for _, o := range r.ops {
		all[o.store] = true
	}
	for store := range r.rows {
		all[store] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// of returns the operations of one store, by invocation.
func (r *run) of(store string) []*op { return r.byStore[store] }

// guarded is true unless the header says otherwise.
func (r *run) guarded() bool { return r.header == nil || r.header.Guarded }
