package check

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/lab/check/replay"
	"github.com/ringfence/ringfence/lab/history"
)

// Check judges a history. It reads nothing but the events. The search of the model ends with ctx,
// or after modelTime; a search that was given up is a doubt, and leaves the other findings as they
// are.
func Check(ctx context.Context, events []history.Event) Result {
	began := time.Now()
	r, f := parse(events), &findings{}
	r.complete(f)
	figures := Figures{}
	r.figures(&figures)
	for _, examine := range []func(*findings, *Figures){
		r.commitOrder, r.marks, r.acknowledged, r.goneBack, r.presence, r.steps, r.jobs,
		r.recovery, r.coverage, r.expected, func(f *findings, fig *Figures) { r.model(ctx, f, fig) },
		func(f *findings, _ *Figures) { replayed(f, events) },
	} {
		examine(f, &figures)
	}
	figures.Took = time.Since(began)
	return Result{
		Verdict: f.verdict(), Header: r.header, Problems: f.listed(), Doubts: f.doubts,
		Figures: figures,
	}
}

// replayed judges the steps of the fence by the rules of the models.
func replayed(f *findings, events []history.Event) {
	for _, v := range replay.Replay(events) {
		f.problems = append(f.problems, Problem{
			Invariant: string(v.Rule), At: v.Event.At, Process: v.Event.Process, Op: v.Event.Op,
			Text: fmt.Sprintf("place %d: %s (invariant %d)", v.Event.Place, v.Text,
				replay.Invariants[v.Rule]),
		})
	}
}

// complete checks that this is a history, from its first line to its last.
func (r *run) complete(f *findings) {
	if len(r.events) == 0 {
		f.doubt("the history is empty")
		return
	}
	if r.header == nil {
		f.doubt("the history does not say what was run: its header is missing")
	}
	if !r.ended {
		f.doubt("the run was not completed: the last line is missing")
	}
	for _, text := range r.broken {
		f.doubt("%s", text)
	}
}
