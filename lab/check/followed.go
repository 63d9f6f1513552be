package check

import (
	"regexp"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// namesMark finds the mark and its holder in the text of a refusal: a worker, or a worker and its
// job. Histories that were recorded earlier have "has led".
var namesMark = regexp.MustCompile(
	`is older than the mark (\d+) of "[^"]*" — ([^\s,]+)(?:, job (\S+))? (?:raised the mark|has led)`)

// followedRaises returns the tokens to which guards may have raised the mark before their winners
// reported anything: a guard follows elections, and raises as soon as leadership moves. They are
// the tokens that an answer of the store names as its mark, for a worker that stood for election
// before and has won that token, or has not won anything until the answer. So an answer that a bug
// of the guard has made up does not explain itself.
//
// A worker may never learn that it led: its session can end before. One with jobs stands for
// election whenever a job is assigned to it, and does not report that. So a mark that only a
// refusal names has to be that of a worker to which a job with this resource had been assigned.
//
// This cannot hide a stale write. Such a token is one that maybe was shown to the store. It makes a
// refusal legal and never an acceptance, and it is no acknowledgement: I1, I2, I4 and I5 do not
// look at it. What it could hide is a false refusal, by a guard that invents a mark of a worker
// that did get a job with this resource; even then nothing under an older token than that mark may
// be accepted afterwards.
func (r *run) followedRaises(store string) map[age]int64 {
	since := map[age]int64{}
	for _, o := range r.of(store) {
		found := namesMark.FindStringSubmatch(o.text)
		if !o.calledStale() || found == nil {
			continue
		}
		named, err := fence.ParseToken(found[1])
		if err != nil {
			continue
		}
		a := r.terms.AgeAfter(named, o.age)
		at, ok := r.stood(found[2], a, o.returned)
		if job := found[3]; job != "" {
			at, ok = r.stoodWithJob(found[2], job, store, o.returned)
		}
		if ok && a.Newer(o.age) {
			keepEarliest(since, a, at)
		}
	}
	return since
}

// stoodWithJob returns when a job with the resource of a register may first have been assigned to a
// worker, before an answer. ok is false if it was not.
func (r *run) stoodWithJob(worker, job, register string, answered int64) (at int64, ok bool) {
	_, resource, _ := strings.Cut(register, " ")
	for _, o := range r.jobOps {
		made := o.State == history.JobAssigned && (o.ok() || o.Outcome == history.Unknown)
		if made && o.worker == worker && o.Key == job && o.invoked <= answered &&
			r.runsUnder(job, resource) {
			return o.invoked, true
		}
	}
	return 0, false
}

// runsUnder reports whether a job has this resource: some worker has run it. Its assignments are
// made under the resource of those who assign.
func (r *run) runsUnder(job, resource string) bool {
	return slices.ContainsFunc(r.jobOps, func(o *jobOp) bool {
		return o.Key == job && string(o.Resource) == resource
	})
}

// stood returns when a worker stood for election before it won a term, or before an answer that it
// was still standing at. ok is false if it did not.
//
// Leader run does not report that it stands for election, so it may do so from the beginning.
func (r *run) stood(worker string, a age, answered int64) (at int64, ok bool) {
	at, ok = r.events[0].At, !slices.ContainsFunc(r.terms.Events, func(t history.TermEvent) bool {
		return t.State == history.Standing
	})
	for _, t := range r.terms.Events {
		switch {
		case history.Worker(t.Process) != worker:
		case t.State == history.Standing && t.At > answered:
			return at, ok
		case t.State == history.Standing:
			at, ok = t.At, true
		case t.State == history.Won && t.Age == a:
			return at, ok
		case t.State == history.Won && t.At < answered:
			ok = false
		}
	}
	return at, ok
}

// possiblySince returns when a store may first have been shown each token that no operation of the
// history shows it.
func (r *run) possiblySince(store string) map[age]int64 {
	since := r.unrecordedRaises(store)
	for a, at := range r.followedRaises(store) {
		keepEarliest(since, a, at)
	}
	return since
}
