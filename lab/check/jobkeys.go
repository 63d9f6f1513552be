package check

import (
	"maps"
	"slices"

	"github.com/ringfence/ringfence/lab/history"
)

// tenure is a time in which a job certainly has not ended: from the answer to its submission, or to
// a retry, until the first step is sent that may end it.
type tenure struct {
	job      *life
	from, to int64
	began    *jobOp
}

// tenures returns them in the order of the job's versions.
func (l *life) tenures() (all []tenure) {
	for _, o := range l.steps {
		if !l.revives(o) {
			continue
		}
		t := tenure{l, o.returned, history.Never, o}
		for _, e := range l.steps {
			if e.ends() && e.mayBeMade() && e.Version >= o.Made {
				t.to = min(t.to, e.invoked)
			}
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b tenure) int { return int(a.began.Version - b.began.Version) })
	return all
}

// keys checks unique keys: two jobs with one key are never unfinished at once, and a submission
// returns a job with its key that had not ended before.
func keys(f *findings, lives map[string]*life) {
	byKey := map[string][]tenure{}
	for _, id := range slices.Sorted(maps.Keys(lives)) {
		l := lives[id]
		if l.submitted == nil || l.submitted.Unique == "" {
			continue
		}
		key := l.submitted.Unique
		for _, t := range l.tenures() {
			for _, other := range byKey[key] {
				if other.job != l && other.from < t.to && t.from < other.to {
					f.atJob("I5", t.began, "jobs %s and %s have the unique key %q at once, for %s", other.job.id,
						l.id,
						key, between(max(other.from, t.from), min(other.to, t.to)))
				}
			}
			byKey[key] = append(byKey[key], t)
		}
		l.returnedInTime(f)
	}
}

// returnedInTime judges the submissions that were acknowledged with a job.
func (l *life) returnedInTime(f *findings) {
	for _, s := range append([]*jobOp{l.submitted}, l.returned...) {
		if s.Unique != l.submitted.Unique {
			f.atJob("I5", s, "a submission with the unique key %q has returned job %s, which has %q",
				s.Unique,
				l.id, l.submitted.Unique)
		}
		for _, e := range l.steps {
			if e.ok() && e.ends() && e.returned < s.invoked && l.endedUntil(e) > s.returned {
				f.atJob("I5", s, "a submission with the unique key %q has returned job %s, %s after that had "+
					"become %s",
					s.Unique, l.id, between(e.returned, s.invoked), e.State)
			}
		}
	}
}

// endedUntil returns when the first step after an end was sent.
func (l *life) endedUntil(end *jobOp) int64 {
	until := history.Never
	for _, o := range l.steps {
		if o.mayBeMade() && o.Version >= end.Made {
			until = min(until, o.invoked)
		}
	}
	return until
}
