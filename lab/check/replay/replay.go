package replay

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// Rule names a rule.
type Rule string

// The rules. See the package documentation.
const (
	Raise    Rule = "raise"
	Register Rule = "register"
	Open     Rule = "open"
	Forget   Rule = "forget"
	Write    Rule = "write"
	Enter    Rule = "enter"
	Elected  Rule = "elected"
	Mine     Rule = "mine"
)

// Invariants has the number of each rule's invariant in ARCHITECTURE.md.
var Invariants = map[Rule]int{
	Raise: 1, Register: 2, Open: 10, Forget: 3, Write: 5, Enter: 10, Elected: 7, Mine: 22,
}

// Violation is a step that the model does not have at this place.
type Violation struct {
	Rule  Rule
	Event history.Event
	Text  string
}

// Replay judges a history.
func Replay(events []history.Event) []Violation {
	r := &replay{store: newStore()}
	r.workers(events)
	isFence := func(e history.Event) bool { return e.Kind == history.Fence }
	if !slices.ContainsFunc(events, isFence) {
		return r.found // recorded before there were such events
	}
	for _, e := range inPlace(events) {
		r.step(e)
	}
	return r.found
}

type replay struct {
	store
	found []Violation
}

func (r *replay) breaks(rule Rule, e history.Event, format string, args ...any) {
	r.found = append(r.found, Violation{rule, e, fmt.Sprintf(format, args...)})
}

// inPlace returns what Postgres holds, in the order of commits. In one transaction writes come
// first: it has taken no step that allows them.
func inPlace(events []history.Event) []history.Event {
	var all []history.Event
	for _, e := range events {
		written := e.Kind == history.Evidence || e.Kind == history.Effect && e.Sync ||
			e.Kind == history.Publish
		if e.Store == "postgres" && (written || e.Kind == history.Fence) {
			all = append(all, e)
		}
	}
	isStep := func(e history.Event) int {
		if e.Kind == history.Fence {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(isStep(a), isStep(b)))
	})
	return all
}

func (r *replay) step(e history.Event) {
	t := term{e.Issuer, e.Token}
	if e.Kind != history.Fence {
		r.written(e)
		return
	}
	switch e.Do {
	case history.Raise:
		r.raise(e, t)
	case history.Register:
		r.begins(e.Start)
		if e.Resource != everybody {
			r.register(e, t)
		}
		r.records[record{e.Resource, e.Backend}] = t
	case history.Attach:
		r.begins(e.Start)
		r.entered(e, t)
		r.records[record{e.Resource, e.Backend}] = t
	case history.Forget:
		delete(r.records, record{e.Resource, e.Backend})
		r.gone[e.Backend] = true
	case history.Open:
		r.open(e, t)
	case history.Shut:
		delete(r.gates, e.Resource)
	case history.Complete, history.Incomplete:
		r.begins(e.Start)
		r.complete = e.Do == history.Complete && !e.Copied
	case history.Empty:
		r.complete = false
		clear(r.records)
		clear(r.marks)
		clear(r.gates)
	}
}

func (r *replay) raise(e history.Event, t term) {
	if last := r.highest[e.Resource]; !e.Copied && last.issuer == t.issuer && last.token > t.token {
		r.breaks(Raise, e, "the mark was raised to %s, though it had been %s", t.token, last.token)
	}
	r.marks[e.Resource] = mark{t, e.Start, e.Copied}
	if !e.Copied {
		r.highest[e.Resource] = t
		r.rank(e.Resource, t)
	}
}

func (r *replay) register(e history.Event, t term) {
	m := r.marks[e.Resource]
	switch other := r.other(e.Resource, e.Backend, t); {
	case m != mark{t, e.Start, false}:
		r.breaks(Register, e, "a session was recorded under token %s, and the mark was %s", t.token, m)
	case !r.complete:
		r.breaks(Register, e, "a session was recorded under token %s, and the registry was lost", t.token)
	case other != "":
		r.breaks(Register, e, "a session was recorded under token %s, while backend %s had one under "+
			"another token",
			t.token, other)
	}
	r.letIn(e.Resource, t)
}

func (r *replay) open(e history.Event, t term) {
	m := mark{t, e.Start, e.Copied}
	if e.Copied || r.gates[e.Resource] == m {
		return
	}
	r.begins(e.Start)
	if r.marks[e.Resource] != m {
		r.breaks(Open, e, "the gate was opened for token %s, and the mark was %s", t.token,
			r.marks[e.Resource])
	} else if other := r.other(e.Resource, "", t); other != "" {
		r.breaks(Open, e, "the gate was opened for token %s, while backend %s had a session under "+
			"another token",
			t.token, other)
	}
	r.gates[e.Resource] = m
	r.opened[opening{e.Resource, t}] = true
	r.letIn(e.Resource, t)
}

// written judges a write.
func (r *replay) written(e history.Event) {
	t, recorded := r.records[record{e.Resource, e.Backend}]
	switch newest := r.newest[e.Resource]; {
	case recorded && r.older(e.Resource, t, newest):
		r.breaks(Write, e, "backend %s wrote under token %s, after the newer %s was let in", e.Backend,
			t.token,
			newest.token)
	case recorded:
	case r.gone[e.Backend]:
		r.breaks(Forget, e, "backend %s wrote after its record was removed", e.Backend)
	default:
		r.entered(e, r.termOf(e.Resource, e.Token))
	}
}

// entered judges what a transaction does that has entered.
func (r *replay) entered(e history.Event, t term) {
	switch newest := r.newest[e.Resource]; {
	case !r.opened[opening{e.Resource, t}]:
		r.breaks(Enter, e, "backend %s had no session under token %s, and its gate was never open",
			e.Backend, e.Token)
	case r.older(e.Resource, t, newest):
		r.breaks(Enter, e, "a transaction of backend %s under token %s was committed after the newer "+
			"%s was let in",
			e.Backend, t.token, newest.token)
	}
}

// everybody is the resource of sessions of which nobody knows the resource.
const everybody fence.Resource = "*"
