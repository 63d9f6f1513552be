package check

import (
	"cmp"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// age is a token and whose it is. A coordinator that lost its data counts from the start, and may give a number out that
// its predecessor gave out too; so tokens are compared only within one issuer, and those of an issuer that appeared later
// are newer. The zero age is before all.
type age struct {
	era   int // of the issuer: the first one is 0
	token fence.Token
}

func (a age) compare(b age) int {
	return cmp.Or(cmp.Compare(a.era, b.era), a.token.Compare(b.token))
}

func (a age) newer(b age) bool { return a.compare(b) > 0 }

func newest(a, b age) age {
	if b.newer(a) {
		return b
	}
	return a
}

// term is what was said of a term.
type term struct {
	history.Event
	age age
}

// takeTerms dates all that was said of terms.
func (r *run) takeTerms(events []history.Event) {
	issuers := issuers{eras: map[fence.Issuer]int{}, known: map[holding]int{}}
	for _, e := range events {
		if e.Kind == history.Term {
			r.terms = append(r.terms, term{e, age{issuers.era(e), e.Token}})
		}
	}
	for _, t := range r.terms {
		if t.Token != 0 && !slices.Contains(r.ages[t.Token], t.age) {
			r.ages[t.Token] = append(r.ages[t.Token], t.age)
		}
	}
	for _, known := range r.ages {
		slices.SortFunc(known, age.compare)
	}
}

// issuers are those seen so far, in the order of their first term.
type issuers struct {
	eras   map[fence.Issuer]int
	known  map[holding]int
	latest int
}

// holding is a worker's term.
type holding struct {
	worker string
	token  fence.Token
}

// era is the issuer's place. An event that names none has that of what the worker said of the term before, or the latest.
func (s *issuers) era(e history.Event) int {
	h := holding{worker(e.Process), e.Token}
	if e.Issuer == "" {
		if era, ok := s.known[h]; ok {
			return era
		}
		return s.latest
	}
	if _, ok := s.eras[e.Issuer]; !ok {
		s.eras[e.Issuer] = len(s.eras)
		s.latest = s.eras[e.Issuer]
	}
	s.known[h] = s.eras[e.Issuer]
	return s.known[h]
}

// ageOf dates the token of an operation: that of the term which its worker had under this token last.
func (r *run) ageOf(process string, token fence.Token, at int64) age {
	if known := r.ages[token]; len(known) == 1 {
		return known[0]
	}
	found := age{token: token}
	for _, t := range r.terms {
		if t.At > at {
			break
		}
		if t.Token == token && worker(t.Process) == worker(process) {
			found = t.age
		}
	}
	return found
}

// ageAfter dates a token that only a database names: the oldest that it can be without going down from before.
func (r *run) ageAfter(token fence.Token, before age) age {
	for _, a := range r.ages[token] {
		if !before.newer(a) {
			return a
		}
	}
	if known := r.ages[token]; len(known) > 0 {
		return known[0]
	}
	return age{token: token}
}
