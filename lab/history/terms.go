package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// Age orders tokens, also those of different issuers. A coordinator that lost its data counts from
// the start and may issue a number that its predecessor issued too. So tokens are compared only
// within one issuer, and those of an issuer that appeared later are newer. The zero Age is the
// oldest.
type Age struct {
	Epoch int // of the issuer; 0 is the first one
	Token fence.Token
}

// Compare returns what cmp.Compare would.
func (a Age) Compare(b Age) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), a.Token.Compare(b.Token))
}

// Newer reports whether a comes after b.
func (a Age) Newer(b Age) bool { return a.Compare(b) > 0 }

// Newest returns the later of the two.
func Newest(a, b Age) Age {
	if b.Newer(a) {
		return b
	}
	return a
}

// TermEvent is a Term event with the age of its token.
type TermEvent struct {
	Event
	Age Age
}

// Terms holds the terms of a history and the ages of their tokens.
type Terms struct {
	Events []TermEvent // in the order of the history
	ages   map[fence.Token][]Age
}

// ReadTerms reads the terms of a history.
func ReadTerms(events []Event) Terms {
	all := Terms{ages: map[fence.Token][]Age{}}
	issuers := issuers{epochs: map[fence.Issuer]int{}, terms: map[workerTerm]int{}}
	for _, e := range events {
		if e.Kind != Term {
			continue
		}
		t := TermEvent{e, Age{issuers.epoch(e), e.Token}}
		all.Events = append(all.Events, t)
		if t.Token != 0 && !slices.Contains(all.ages[t.Token], t.Age) {
			all.ages[t.Token] = append(all.ages[t.Token], t.Age)
		}
	}
	for _, ages := range all.ages {
		slices.SortFunc(ages, Age.Compare)
	}
	return all
}

// Worker returns the process without its lane: worker-1 for worker-1/postgres.
func Worker(process string) string {
	name, _, _ := strings.Cut(process, "/")
	return name
}

// issuers are those seen so far, numbered in the order of their first terms.
type issuers struct {
	epochs map[fence.Issuer]int
	terms  map[workerTerm]int // the epoch of each
	latest int
}

type workerTerm struct {
	worker string
	token  fence.Token
}

// epoch returns the epoch of the event's issuer. An event that names no issuer belongs to the
// epoch in which its worker mentioned the term before, or to the latest one.
func (s *issuers) epoch(e Event) int {
	t := workerTerm{Worker(e.Process), e.Token}
	if e.Issuer == "" {
		if epoch, ok := s.terms[t]; ok {
			return epoch
		}
		return s.latest
	}
	if _, ok := s.epochs[e.Issuer]; !ok {
		s.epochs[e.Issuer] = len(s.epochs)
		s.latest = s.epochs[e.Issuer]
	}
	s.terms[t] = s.epochs[e.Issuer]
	return s.terms[t]
}

// Has reports whether any event is about a term with this token.
func (t Terms) Has(token fence.Token) bool { return len(t.ages[token]) > 0 }

// AgeOf returns the age of an operation's token: that of its worker's latest term under it.
func (t Terms) AgeOf(process string, token fence.Token, at int64) Age {
	if ages := t.ages[token]; len(ages) == 1 {
		return ages[0]
	}
	age := Age{Token: token}
	for _, e := range t.Events {
		if e.At > at {
			break
		}
		if e.Token == token && Worker(e.Process) == Worker(process) {
			age = e.Age
		}
	}
	return age
}

// AgeAfter returns the age of a token that only a database names: the oldest possible one that is
// not older than before.
func (t Terms) AgeAfter(token fence.Token, before Age) Age {
	ages := t.ages[token]
	for _, age := range ages {
		if !before.Newer(age) {
			return age
		}
	}
	if len(ages) > 0 {
		return ages[0]
	}
	// no worker has won it: a guard may have followed the election of one that never learned of it
	if age := (Age{before.Epoch, token}); !before.Newer(age) {
		return age
	}
	return Age{Token: token}
}
