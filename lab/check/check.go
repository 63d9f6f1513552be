package check

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// Check judges a history. It reads nothing but the events; ctx bounds the search of the model, which is given up after
// modelTime in any case: a search that was given up is a doubt, and what the other invariants found stands.
func Check(ctx context.Context, events []history.Event) Result {
	began := time.Now()
	r, f := takeApart(events), &findings{}
	r.whole(f)
	figures := Figures{}
	r.figures(&figures)
	for _, examine := range []func(*findings, *Figures){
		r.commitOrder, r.marks, r.acknowledged, r.presence, r.steps, r.recovery, r.coverage, r.expected,
		func(f *findings, fig *Figures) { r.model(ctx, f, fig) },
	} {
		examine(f, &figures)
	}
	figures.Took = time.Since(began)
	return Result{Verdict: f.verdict(), Header: r.header, Problems: f.listed(), Doubts: f.doubts, Figures: figures}
}

// whole asks whether this is a history at all, from its first line to its last.
func (r *run) whole(f *findings) {
	if len(r.events) == 0 {
		f.doubt("the history is empty")
		return
	}
	if r.header == nil {
		f.doubt("the history does not say what was run: its header is missing")
	}
	if !r.ended {
		f.doubt("the run was not carried out to its end: the last line is missing")
	}
	for _, text := range r.broken {
		f.doubt("%s", text)
	}
}
