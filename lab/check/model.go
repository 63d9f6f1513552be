package check

import (
	"context"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ringfence/ringfence/lab/history"
)

// modelTime bounds the search for one store.
const modelTime = 20 * time.Second

// answer is what an operation of the model came to.
type answer string

const (
	accepted answer = "ok"    // legal if its token is not below the mark; then the mark is its token
	rejected answer = "stale" // legal if its token is below the mark
	perhaps  answer = "?"     // may lift the mark, or not: always legal
)

// act is an operation of the model, as porcupine's input.
type act struct {
	op    *op // nil: nobody in the history did it
	store string
	do    history.Do
	age   age
}

// register is the model of a guard and its store: a mark that only rises.
//
// An act that perhaps lifts the mark needs no branches: it has no end, or ends where it cannot matter any more, so that "it
// did not happen" is the same as its being last.
func register() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return age{} },
		Step: func(state, input, output any) (bool, any) {
			mark, a := state.(age), input.(act).age
			switch output.(answer) {
			case accepted:
				return !mark.Newer(a), a
			case rejected:
				return mark.Newer(a), mark
			}
			return true, history.Newest(mark, a)
		},
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return "mark " + state.(age).Token.String() },
	}
}

func describe(input, output any) string {
	a := input.(act)
	return string(a.do) + "(" + a.age.Token.String() + ") " + string(output.(answer))
}

// model judges each store's answers: there has to be an order of the operations, each somewhere between its Invoke and its
// Return, in which the mark explains every answer. It finds what I2 finds, and also a rightful leader that was refused.
//
// It is sound though processes freeze: an Invoke too early or a Return too late only allows for more orders.
func (r *run) model(ctx context.Context, f *findings, figures *Figures) {
	if r.guarded() {
		r.falseRefusals(f, figures)
	}
	for _, store := range r.stores() {
		ops := r.modelled(store, map[string]int{})
		if len(ops) == 0 {
			continue
		}
		result, explained := linearize(ctx, ops)
		figures.Linearized += performed(explained)
		switch result {
		case porcupine.Unknown:
			f.doubt("%s: the model could not be checked in time (%d operations)", store, len(ops))
		case porcupine.Illegal:
			unexplained(f, store, ops, explained)
		}
	}
}

// performed counts those operations that somebody did.
func performed(ops []porcupine.Operation) int {
	n := 0
	for _, o := range ops {
		if o.Input.(act).op != nil {
			n++
		}
	}
	return n
}

// linearize looks for an order, and returns the longest one that it found.
func linearize(ctx context.Context, ops []porcupine.Operation) (porcupine.CheckResult, []porcupine.Operation) {
	m := register()
	step := m.Step
	m.Step = func(state, input, output any) (bool, any) {
		if ctx.Err() != nil {
			return false, state // the search runs out of ways, and its result is not used
		}
		return step(state, input, output)
	}
	limit := modelTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(time.Millisecond, min(limit, time.Until(deadline)))
	}
	result, info := porcupine.CheckOperationsVerbose(m, ops, limit)
	if result == porcupine.Illegal && ctx.Err() != nil {
		result = porcupine.Unknown
	}
	var longest []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, order := range part {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	return result, longest
}

// unexplained reports where the longest order ends: at the answer that was given first of those which do not fit in.
func unexplained(f *findings, store string, ops, explained []porcupine.Operation) {
	var mark age // as those say that somebody did
	fits := map[act]bool{}
	for _, o := range explained {
		if a := o.Input.(act); a.op != nil && o.Output == accepted {
			mark = history.Newest(mark, a.age)
		}
		fits[o.Input.(act)] = true
	}
	var first *porcupine.Operation
	for i, o := range ops {
		if !fits[o.Input.(act)] && (first == nil || o.Return < first.Return) {
			first = &ops[i]
		}
	}
	if first == nil || first.Input.(act).op == nil {
		f.atRun("model", 0, "", "%s: no order of its operations explains its answers", store)
		return
	}
	o := first.Input.(act).op
	f.atOp("model", o, "%s: no order of the operations explains why the answer to %s %s under token %s was %q: "+
		"%d of %d are explained, and the newest token that those raise the mark to is %s",
		store, o.do, o.id, o.token, first.Output, performed(explained), performed(ops), mark.Token)
}
