package check

import (
	"regexp"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// namesMark finds the mark in the text of a refusal.
var namesMark = regexp.MustCompile(`is older than the mark (\d+) of `)

// followedRaises returns the tokens to which guards may have raised the mark before their winners
// reported anything: a guard follows elections, and raises as soon as leadership moves. They are the
// tokens that an answer of the store names as its mark, and that a worker has won. So an answer that
// a bug of the guard has made up does not explain itself.
//
// A token cannot have led before its worker stood for election.
func (r *run) followedRaises(store string) map[age]int64 {
	since := map[age]int64{}
	for _, o := range r.of(store) {
		if !o.calledStale() {
			continue
		}
		found := namesMark.FindStringSubmatch(o.text)
		if found == nil {
			continue
		}
		named, err := fence.ParseToken(found[1])
		if err != nil {
			continue
		}
		a := r.terms.AgeAfter(named, o.age)
		if at, ok := r.stood(a); ok && a.Newer(o.age) {
			keepEarliest(since, a, at)
		}
	}
	return since
}

// stood returns when the worker stood for election that has won a term. ok is false if nobody has.
func (r *run) stood(a age) (at int64, ok bool) {
	standing := map[string]int64{}
	for _, t := range r.terms.Events {
		worker := history.Worker(t.Process)
		switch {
		case t.State == history.Standing:
			standing[worker] = t.At
		case t.State == history.Won && t.Age == a:
			if at, ok = standing[worker]; !ok {
				at = r.events[0].At
			}
			return at, true
		}
	}
	return 0, false
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
