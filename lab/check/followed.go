package check

import (
	"regexp"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// namesMark finds the mark and its holder in the text of a refusal.
var namesMark = regexp.MustCompile(`is older than the mark (\d+) of "[^"]*" — (\S+) has led`)

// followedRaises returns the tokens to which guards may have raised the mark before their winners
// reported anything: a guard follows elections, and raises as soon as leadership moves. They are the
// tokens that an answer of the store names as its mark, for a worker that stood for election before
// and has won that token, or has not won anything until the answer. So an answer that a bug of the
// guard has made up does not explain itself.
//
// A worker may never learn that it led: its session can end before.
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
		if at, ok := r.stood(found[2], a, o.returned); ok && a.Newer(o.age) {
			keepEarliest(since, a, at)
		}
	}
	return since
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
