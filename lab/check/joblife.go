package check

import (
	"slices"

	"github.com/ringfence/ringfence/lab/history"
)

// before returns the step whose status a step has replaced; nil if that is not known.
func (l *life) before(o *jobOp) *jobOp { return l.made[o.Version] }

// creates reports whether a step creates the job.
func (o *jobOp) creates() bool {
	return o.Version == 0 && o.State == history.JobWaiting && o.Made != 0
}

// takesBack reports whether a step takes a job away from a worker that is gone.
func (l *life) takesBack(o *jobOp) bool {
	b := l.before(o)
	had := b == nil || b.State == history.JobAssigned || b.State == history.JobRunning
	return had && o.Resource == history.Assigner && o.State != history.JobAssigned
}

// retries reports whether a step is a retry: the job had ended, and waits again.
func (l *life) retries(o *jobOp) bool {
	b := l.before(o)
	return o.State == history.JobWaiting && b != nil && b.ends()
}

// revives reports whether a step begins a life of the job: it creates it, or is a retry.
func (l *life) revives(o *jobOp) bool { return o.ok() && (o.creates() || l.retries(o)) }

// retried reports whether the job has been retried, or may have been: a retry whose answer was lost
// may have been made.
func (l *life) retried() bool {
	return slices.ContainsFunc(l.steps, func(o *jobOp) bool { return o.mayBeMade() && l.retries(o) })
}

// arrows are the arrows between the states of a job (job.State).
var arrows = map[history.State][]history.State{
	history.JobWaiting: {history.JobAssigned, history.JobCancelled},
	history.JobAssigned: {history.JobRunning, history.JobWaiting, history.JobFailed,
		history.JobCancelled},
	history.JobRunning: {
		history.JobRunning, history.JobWaiting, history.JobDone, history.JobFailed, history.JobCancelled,
	},
	history.JobFailed:    {history.JobWaiting},
	history.JobCancelled: {history.JobWaiting},
}

// followsTheArrows: each step is one of the arrows between the states of a job. So a job that was
// cancelled is not assigned again unless it was retried, and one that is done is left alone. Only
// an assignment begins an attempt, and only the end of a run ends a round.
func (l *life) followsTheArrows(f *findings) {
	for _, o := range l.steps {
		b := l.before(o)
		if b == nil || !o.ok() {
			continue
		}
		attempt := b.Attempt
		if o.State == history.JobAssigned {
			attempt++
		}
		mayEndRound := b.State == history.JobRunning && o.State == history.JobWaiting && !l.takesBack(o)
		round := o.Round == b.Round || mayEndRound && o.Round == b.Round+1
		switch {
		case !slices.Contains(arrows[b.State], o.State):
			f.atJob("I5", o, "job %s became %s by %s, and was %s by %s before", l.id, o.State, o.Process,
				b.State, b.Process)
		case o.Attempt != attempt || !round:
			f.atJob("I5", o, "job %s became %s in attempt %d and after %d rounds, and was %s in attempt "+
				"%d and after %d rounds before", l.id, o.State, o.Attempt, o.Round, b.State, b.Attempt, b.Round)
		}
	}
}

// cancelledOnRequest: a job is cancelled only if somebody has asked for that since it was
// submitted, or retried. A call counts that had not returned when the submission or the retry was
// sent, and that was sent before the answer to the cancellation.
func (l *life) cancelledOnRequest(f *findings) {
	for _, o := range l.steps {
		if !o.ok() || o.State != history.JobCancelled {
			continue
		}
		since := l.revivedBefore(o)
		asked := slices.ContainsFunc(l.calls, func(c *jobOp) bool {
			return c.Do == history.Cancel && c.mayBeMade() && c.invoked < o.returned &&
				(since == nil || c.returned > since.invoked)
		})
		if !asked {
			f.atJob("I5", o,
				"job %s was cancelled by %s, and nobody has asked for it since it began to wait",
				l.id, o.Process)
		}
	}
}

// revivedBefore returns the step that began the life of the job to which a step belongs; nil if
// that is not known.
func (l *life) revivedBefore(o *jobOp) (last *jobOp) {
	for _, s := range l.steps {
		if l.revives(s) && s.Version < o.Version && (last == nil || s.Version > last.Version) {
			last = s
		}
	}
	return last
}

// cancelledInTime: a job that waits while a cancellation is called and returns is not assigned
// later.
func (l *life) cancelledInTime(f *findings) {
	for _, o := range l.steps {
		b := l.before(o)
		if b == nil || !o.ok() || o.State != history.JobAssigned || b.State != history.JobWaiting {
			continue
		}
		for _, c := range l.calls {
			if c.Do == history.Cancel && c.ok() && b.returned < c.invoked && c.returned < o.invoked {
				f.atJob("I5", o, "job %s was assigned in attempt %d, %s after it had been cancelled by %s "+
					"while it waited", l.id, o.Attempt, between(c.returned, o.invoked), c.Process)
			}
		}
	}
}

// stepsOfJobs returns the acknowledged steps of each job in a store.
func (r *run) stepsOfJobs() map[string][]*op {
	all := map[string][]*op{}
	for _, o := range r.ops {
		if o.do == history.Step && o.attempt != 0 && o.ok() {
			id := history.JobOf(o.key)
			all[id] = append(all[id], o)
		}
	}
	return all
}

// noEffectAfterTheEnd: what a job writes was sent before its end was acknowledged, and in an
// attempt that had started. An attempt is left out that was taken back from its worker, which was
// gone: its writes are refused once the next attempt has begun, and not before.
func (l *life) noEffectAfterTheEnd(f *findings, written []*op) {
	for _, w := range written {
		started := false
		for _, o := range l.steps {
			started = started || o.State == history.JobRunning && o.Attempt == w.attempt && o.mayBeMade()
			if o.ok() && o.ends() && o.Attempt >= w.attempt && o.returned < w.invoked &&
				!l.takenBack(w.attempt) {
				f.atOp("I5", w, "%s: %s was accepted in attempt %d of job %s, but was sent %s after %s had "+
					"made it "+
					"%s", w.store, w.id, w.attempt, l.id, between(o.returned, w.invoked), o.Process, o.State)
			}
		}
		if !started {
			f.atOp("I5", w, "%s: %s was accepted in attempt %d of job %s, which has not started", w.store,
				w.id,
				w.attempt, l.id)
		}
	}
}

// takenBack reports whether an attempt was taken back from its worker, or may have been.
func (l *life) takenBack(attempt int) bool {
	return slices.ContainsFunc(l.steps, func(o *jobOp) bool {
		return o.Attempt == attempt && l.takesBack(o) && o.mayBeMade()
	})
}
