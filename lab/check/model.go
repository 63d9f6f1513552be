package check

import (
	"context"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ringfence/ringfence/lab/history"
)

// modelTime bounds the search for one store. Once a search was given up, others get modelLess: a
// run about jobs has as many as it has resources, and without a guard many have no order.
const (
	modelTime = 20 * time.Second
	modelLess = time.Second
)

// answer is the result of an operation of the model.
type answer string

const (
	accepted answer = "ok"    // legal if its token is not below the mark, which then is its token
	rejected answer = "stale" // legal if its token is below the mark
	maybe    answer = "?"     // raises the mark, or does not: always legal
)

// input is an operation of the model, as porcupine's input.
type input struct {
	op    *op // nil: no operation of the history
	store string
	do    history.Do
	age   age
}

// register is the model of a guard and its store: a mark that only rises.
//
// An operation that maybe raises the mark needs no branches. Either it has no end, or it ends where
// it no longer matters, so "it did not happen" is the same as "it came last".
func register() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return age{} },
		Step: func(state, in, output any) (bool, any) {
			mark, a := state.(age), in.(input).age
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

func describe(in, output any) string {
	a := in.(input)
	return string(a.do) + "(" + a.age.Token.String() + ") " + string(output.(answer))
}

// model judges the answers of each store. There has to be an order of the operations, each between
// its Invoke and its Return, in which the mark explains every answer. It finds what I2 finds, and
// also a rightful leader that was refused.
//
// Frozen processes cannot make it wrong: an Invoke too early or a Return too late only allows more
// orders.
func (r *run) model(ctx context.Context, f *findings, figures *Figures) {
	if r.guarded() {
		r.falseRefusals(f, figures)
	}
	limit := modelTime
	for _, store := range r.stores() {
		ops := r.modelled(store, map[string]int{})
		if len(ops) == 0 {
			continue
		}
		result, explained := linearize(ctx, ops, limit)
		figures.Linearized += recorded(explained)
		switch result {
		case porcupine.Unknown:
			limit = modelLess
			f.doubt("%s: the model could not be checked in time (%d operations)", store, len(ops))
		case porcupine.Illegal:
			unexplained(f, store, ops, explained)
		}
	}
}

// recorded counts the operations that are in the history.
func recorded(ops []porcupine.Operation) int {
	n := 0
	for _, o := range ops {
		if o.Input.(input).op != nil {
			n++
		}
	}
	return n
}

// linearize looks for an order, and returns the longest that it found.
func linearize(
	ctx context.Context, ops []porcupine.Operation, limit time.Duration,
) (porcupine.CheckResult, []porcupine.Operation) {
	m := register()
	step := m.Step
	m.Step = func(state, in, output any) (bool, any) {
		if ctx.Err() != nil {
			return false, state // ends the search; its result is not used
		}
		return step(state, in, output)
	}
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

// unexplained reports where the longest order ends: at the earliest answer that does not fit in.
func unexplained(f *findings, store string, ops, explained []porcupine.Operation) {
	var mark age // raised by recorded operations
	fits := map[input]bool{}
	for _, o := range explained {
		if a := o.Input.(input); a.op != nil && o.Output == accepted {
			mark = history.Newest(mark, a.age)
		}
		fits[o.Input.(input)] = true
	}
	var first *porcupine.Operation
	for i, o := range ops {
		if !fits[o.Input.(input)] && (first == nil || o.Return < first.Return) {
			first = &ops[i]
		}
	}
	if first == nil || first.Input.(input).op == nil {
		f.atRun("model", 0, "", "%s: no order of its operations explains its answers", store)
		return
	}
	o := first.Input.(input).op
	f.atOp("model", o, "%s: no order of the operations explains why the answer to %s %s under "+
		"token %s was %q: %d of %d are explained, and they raise the mark to %s at most",
		store, o.do, o.id, o.token, first.Output, recorded(explained), recorded(ops), mark.Token)
}
