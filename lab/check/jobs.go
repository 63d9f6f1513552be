package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// jobOp is a submission, or a step of a job's life, from its Invoke to its Return. A change of
// documents has one for each job that it moves.
type jobOp struct {
	history.Event // the Return if there is one, otherwise the Invoke
	invoked       int64
	returned      int64  // history.Never if there is no Return
	worker        string // that the Invoke names
}

func (o *jobOp) ok() bool { return o.Outcome == history.OK }

// mayBeMade reports whether a step was made, or may have been.
func (o *jobOp) mayBeMade() bool { return o.ok() || o.Outcome == history.Unknown }

// completes reports whether it ends the job with what a worker has brought.
func (o *jobOp) completes() bool {
	return o.Do == history.Change && (o.State == history.JobDone || o.State == history.JobFailed)
}

// ends reports whether it ends the job.
func (o *jobOp) ends() bool { return o.completes() || o.State == history.JobCancelled }

// jobStep reads an Invoke or a Return of a jobOp.
func (r *run) jobStep(e history.Event) {
	o := r.jobByID[e.Op]
	switch {
	case e.Kind == history.Invoke && o != nil:
		r.breaks("operation %q was invoked twice: names of operations must be unique", e.Op)
	case e.Kind == history.Invoke:
		o = &jobOp{Event: e, invoked: e.At, returned: history.Never, worker: e.Text}
		o.Outcome = history.Unknown
		r.jobByID[e.Op] = o
		r.jobOps = append(r.jobOps, o)
	case o == nil || o.returned != history.Never:
		r.breaks("operation %q has returned twice, or was never invoked", e.Op)
	default:
		o.Event, o.returned = e, e.At
	}
}

func (r *run) aboutJobs() bool { return len(r.jobOps) > 0 }

// life is what the history says about one job.
type life struct {
	id        string
	submitted *jobOp   // the first that was acknowledged; nil if none was
	returned  []*jobOp // the other submissions that were acknowledged with this job
	calls     []*jobOp // that cancel it or retry it
	steps     []*jobOp
	made      map[int64]*jobOp // steps that were acknowledged, by the version that they made
	end       *history.Event   // what the coordinator has after the run
}

// lives returns the jobs of a history, by ID.
func (r *run) lives() map[string]*life {
	all := map[string]*life{}
	of := func(id string) *life {
		if all[id] == nil {
			all[id] = &life{id: id, made: map[int64]*jobOp{}}
		}
		return all[id]
	}
	for _, o := range r.jobOps {
		if o.Do == history.Submit && !o.ok() {
			continue // it has no job
		}
		l := of(o.Key)
		switch {
		case o.Do == history.Submit && l.submitted == nil:
			l.submitted = o
		case o.Do == history.Submit:
			l.returned = append(l.returned, o)
		case o.Do == history.Change:
			l.steps = append(l.steps, o)
			if o.ok() && o.Made != 0 {
				l.made[o.Made] = o
			}
		default:
			l.calls = append(l.calls, o)
		}
	}
	for i, e := range r.jobsLeft {
		if e.State != history.LeftOver {
			of(e.Key).end = &r.jobsLeft[i]
		}
	}
	return all
}

// round is a round of a job.
type round struct {
	job    string
	number int64
}

// roundEffects returns how many steps of each round have had an effect.
func (r *run) roundEffects() map[round]int {
	n := map[round]int{}
	for key := range r.effectKeys() {
		job, _, _, number := splitKey(key)
		n[round{job, number}]++
	}
	return n
}

// jobs checks I5: every acknowledged job has ended as it should, with each of its effects if it is
// done; no job ends twice, and none under an attempt that is over; two steps are never made from
// one status; jobs with one resource never run at once; and what clients ask for (joblife.go,
// jobkeys.go). The other invariants judge the effects themselves, for each resource: I1 says that
// none of an older attempt comes after one of a newer attempt, and I4 that none is there twice.
func (r *run) jobs(f *findings, figures *Figures) {
	if !r.aboutJobs() {
		return
	}
	lives := r.lives()
	figures.Jobs = r.jobFigures(lives)
	effects := r.roundEffects()
	written := r.stepsOfJobs()
	for _, id := range slices.Sorted(maps.Keys(lives)) {
		l := lives[id]
		r.ends(f, l, effects)
		l.endsOnce(f)
		l.endsInTime(f)
		l.oneAfterTheOther(f)
		l.followsTheArrows(f)
		l.cancelledOnRequest(f)
		l.cancelledInTime(f)
		l.noEffectAfterTheEnd(f, written[id])
	}
	keys(f, lives)
	r.attemptsRise(f)
	r.oneAtATime(f)
	for _, e := range r.jobsLeft {
		if e.State == history.LeftOver {
			f.atRun("I5", e.At, "", "%s is there though all jobs have ended", e.Text)
		}
	}
}

// ends: a job that was acknowledged has ended as its submission says, unless somebody has cancelled
// it. Each step of a round that has ended has had its effect.
func (r *run) ends(f *findings, l *life, effects map[round]int) {
	if !r.ended {
		return
	}
	s := l.submitted
	switch {
	case s == nil && l.end != nil && !l.endsWell(history.JobDone):
		f.atRun("I5", l.end.At, "", "job %s, whose submission was not acknowledged, is %s at the end",
			l.id, l.end.State)
	case s == nil:
	case l.end == nil:
		f.atJob("I5", s, "job %s was acknowledged, and there is none", l.id)
	case !l.endsWell(cmp.Or(s.State, history.JobDone)):
		f.atJob("I5", s, "job %s was acknowledged, and is %s at the end, in attempt %d: %q",
			l.id, l.end.State, l.end.Attempt, l.end.Text)
	default:
		rounds := l.end.Round
		if l.end.State == history.JobDone {
			rounds++
		}
		for n := int64(1); n <= rounds; n++ {
			if got := effects[round{l.id, n}]; got != s.Step {
				f.atJob("I5", s, "round %d of job %s is done, and %d of its %d steps have had an effect",
					n, l.id, got, s.Step)
			}
		}
	}
}

// endsWell reports whether a job is in the right state at the end.
func (l *life) endsWell(want history.State) bool {
	return l.end.State == want || l.end.State == history.JobCancelled && len(l.calls) > 0
}

// endsOnce: at most one completion was accepted, and it is that of the attempt at the end. One that
// has failed may have been retried.
func (l *life) endsOnce(f *findings) {
	if l.retried() {
		return // oneAfterTheOther and followsTheArrows say the same
	}
	var first *jobOp
	for _, o := range l.steps {
		if !o.completes() || !o.ok() {
			continue
		}
		if first != nil {
			f.atJob("I5", o, "job %s was completed twice: in attempt %d by %s and in attempt %d by %s",
				l.id, first.Attempt, first.Process, o.Attempt, o.Process)
		}
		first = o
		if l.end != nil && l.end.Attempt != o.Attempt {
			f.atJob("I5", o, "job %s was completed in attempt %d, and is in attempt %d at the end",
				l.id, o.Attempt, l.end.Attempt)
		}
	}
}

// endsInTime: no completion is accepted that was sent under an attempt after the next attempt had
// been assigned.
func (l *life) endsInTime(f *findings) {
	for _, o := range l.steps {
		if newer := l.overtaken(o); newer != nil && o.ok() {
			f.atJob("I5", o, "job %s was completed in attempt %d, %s after attempt %d had been assigned",
				l.id, o.Attempt, between(newer.returned, o.invoked), newer.Attempt)
		}
	}
}

// overtaken returns the assignment of a newer attempt that was acknowledged before a completion was
// sent; nil if there was none.
func (l *life) overtaken(o *jobOp) *jobOp {
	for _, a := range l.steps {
		newer := a.State == history.JobAssigned && a.ok() && a.Attempt > o.Attempt
		if o.completes() && newer && a.returned < o.invoked {
			return a
		}
	}
	return nil
}

// oneAfterTheOther: each step replaces a status that no other step has replaced.
func (l *life) oneAfterTheOther(f *findings) {
	replaced := map[int64]*jobOp{}
	for _, o := range l.steps {
		if !o.ok() {
			continue
		}
		if other := replaced[o.Version]; other != nil {
			f.atJob("I5", o, "version %d of the status of job %s was replaced twice: with %q by %s and "+
				"with %q by %s", o.Version, l.id, other.State, other.Process, o.State, o.Process)
		}
		replaced[o.Version] = o
	}
}

// oneAtATime: jobs with one resource never run at once. No step of a job was accepted that was sent
// under a token of its resource after a step under a newer one had been accepted, of whatever job.
// (For what the jobs write, I1 and I2 say the same.)
func (r *run) oneAtATime(f *findings) {
	accepted := map[fence.Resource]acks{}
	under := func(o *jobOp) age { return r.terms.AgeOf(o.Process, o.Token, o.invoked) }
	for _, o := range r.jobOps {
		if o.Do == history.Change && o.Token != 0 && o.ok() {
			what := fmt.Sprintf("%s made job %s %s", o.Process, o.Key, o.State)
			accepted[o.Resource] = append(accepted[o.Resource], ack{
				at: o.returned, age: under(o), what: what,
			})
		}
	}
	for _, all := range accepted {
		all.sort()
	}
	for _, o := range r.jobOps {
		if o.Do != history.Change || o.Token == 0 || !o.ok() {
			continue
		}
		if newer, ok := accepted[o.Resource].before(o.invoked); ok && newer.age.Newer(under(o)) {
			f.atJob("I5", o, "job %s became %s under token %s of %s, %s after %s under the newer token %s",
				o.Key, o.State, o.Token, o.Resource, between(newer.at, o.invoked), newer.what, newer.age.Token)
		}
	}
}

// attemptsRise: in the order of commits, a job's attempts never go down.
func (r *run) attemptsRise(f *findings) {
	newest := map[string]row{}
	for _, store := range r.stores() {
		for _, w := range r.rows[store] {
			if w.op == nil || w.op.attempt == 0 {
				continue
			}
			job := history.JobOf(w.op.key)
			if last, ok := newest[job]; ok && last.op.attempt > w.op.attempt {
				f.atRow("I5", w, "%s: %s of attempt %d of job %s was committed at place %d, behind %s of "+
					"attempt %d at place %d", w.Store, w.name(), w.op.attempt, job, w.Place, last.name(),
					last.op.attempt, last.Place)
				continue
			}
			newest[job] = w
		}
	}
}

// atJob adds a violation by a step of a job.
func (f *findings) atJob(invariant string, o *jobOp, format string, args ...any) {
	at := o.returned
	if at == history.Never {
		at = o.invoked
	}
	f.atRun(invariant, at, o.Process, format, args...)
}
