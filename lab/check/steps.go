package check

import (
	"github.com/ringfence/ringfence/lab/history"
)

// steps checks I4, for histories of tasks. Synchronous effects are there exactly once and in the
// order of the steps. An asynchronous effect is there at least once if a later checkpoint was
// published. The checkpoint never goes back.
func (r *run) steps(f *findings, figures *Figures) {
	p := r.plan()
	r.inOrder(f, p)
	// Most stale checkpoints count in both numbers.
	figures.StaleAccepted += max(r.staleCheckpoints, r.checkpoints(f))
	r.effective(f, p)
	r.allSteps(f)
}

// inOrder judges the synchronous effects in commit order.
func (r *run) inOrder(f *findings, p plan) {
	there := map[string]history.Event{}
	latest := map[string]history.Event{} // of each task in each store
	for _, e := range r.effects {
		if !e.Sync {
			continue
		}
		if first, ok := there[e.Key]; ok {
			f.atRow("I4", r.rowOf(e), "the synchronous step %s took effect twice: at place %d "+
				"under token %s and at place %d under token %s",
				e.Key, first.Place, first.Token, e.Place, e.Token)
			continue
		}
		there[e.Key] = e
		task := e.Store + "/" + taskOf(e.Key)
		last, ok := latest[task]
		if ok && p.position(e.Key).compare(p.position(last.Key)) < 0 {
			f.atRow("I4", r.rowOf(e), "the synchronous step %s took effect at place %d, "+
				"after the later step %s at place %d", e.Key, e.Place, last.Key, last.Place)
			continue
		}
		latest[task] = e
	}
}

// checkpoints judges the published checkpoints in commit order: each version is the one after the
// last. It returns how many came after one under a newer token.
func (r *run) checkpoints(f *findings) (stale int) {
	last := map[string]history.Event{}
	newest := map[string]age{}
	for _, e := range r.published {
		a := r.terms.AgeAfter(e.Token, newest[e.Task])
		if before, ok := last[e.Task]; ok {
			r.succeeds(f, before, e)
		}
		if newest[e.Task].Newer(a) {
			stale++
			f.atRun("I4", e.At, "", "%s: version %d was published at place %d under token %s, "+
				"after one under the newer token %s",
				e.Task, e.Version, e.Place, e.Token, newest[e.Task].Token)
		}
		last[e.Task], newest[e.Task] = e, history.Newest(newest[e.Task], a)
	}
	return stale
}

// succeeds compares a checkpoint with the one before it.
func (r *run) succeeds(f *findings, before, e history.Event) {
	if e.Version != before.Version+1 {
		f.atRun("I4", e.At, "", "%s: version %d was published at place %d under token %s, "+
			"right after version %d at place %d under %s",
			e.Task, e.Version, e.Place, e.Token, before.Version, before.Place, before.Token)
	}
	was, is := next(before), next(e)
	if is.compare(was) < 0 {
		f.atRun("I4", e.At, "", "%s went back: from run %d round %d step %d (version %d) "+
			"to run %d round %d step %d (version %d, place %d, token %s)",
			e.Task, was.run, was.round, was.step, before.Version,
			is.run, is.round, is.step, e.Version, e.Place, e.Token)
	}
}

// next returns the step that a checkpoint names as the next.
func next(e history.Event) position { return position{e.Run, e.Round, e.Step} }

// effective judges the steps that must have taken effect: those acknowledged, and those that a
// checkpoint has passed.
func (r *run) effective(f *findings, p plan) {
	there := r.effectKeys()
	furthest := map[string]history.Event{}
	for _, e := range r.published {
		if last, ok := furthest[e.Task]; !ok || next(e).compare(next(last)) > 0 {
			furthest[e.Task] = e
		}
	}
	judged := map[string]bool{}
	for _, o := range r.ops {
		skip := o.do != history.Step || o.key == "" || there[o.key] || judged[o.key]
		if !r.ended || skip {
			continue
		}
		e, published := furthest[taskOf(o.key)]
		at := p.position(o.key)
		switch {
		case o.ok():
			f.atOp("I4", o, "step %s was acknowledged under token %s to %s, and has had no effect",
				o.key, o.token, o.process)
		case published && at.run == e.Run && at.compare(next(e)) < 0:
			f.atOp("I4", o, "step %s has had no effect, and version %d (round %d, step %d is "+
				"next) says that it is done", o.key, e.Version, e.Round, e.Step)
		default:
			continue
		}
		judged[o.key] = true
	}
}

func (r *run) effectKeys() map[string]bool {
	there := map[string]bool{}
	for _, e := range r.effects {
		there[e.Key] = true
	}
	return there
}

// allSteps judges a task that had to be finished within the run.
func (r *run) allSteps(f *findings) {
	if n := len(r.effectKeys()); r.ended && n < r.expect.Steps {
		f.atRun("I4", 0, "",
			"%d steps have taken effect, and %d were demanded by the end of the run",
			n, r.expect.Steps)
	}
}
