package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
)

// Age is a token and whose it is. A coordinator that lost its data counts from the start, and may give a number out that
// its predecessor gave out too; so tokens are compared only within one issuer, and those of an issuer that appeared later
// are newer. The zero Age is before all.
type Age struct {
	Era   int // of the issuer: the first one is 0
	Token fence.Token
}

// Compare is cmp.Compare's.
func (a Age) Compare(b Age) int { return cmp.Or(cmp.Compare(a.Era, b.Era), a.Token.Compare(b.Token)) }

// Newer is true of an age that comes after b.
func (a Age) Newer(b Age) bool { return a.Compare(b) > 0 }

// Newest is the later of two.
func Newest(a, b Age) Age {
	if b.Newer(a) {
		return b
	}
	return a
}

// Dated is what was said of a term.
type Dated struct {
	Event
	Age Age
}

// Ages dates the tokens of a history by what was said of terms.
type Ages struct {
	Terms []Dated // in the order of the history
	known map[fence.Token][]Age
}

// Date reads a history.
func Date(events []Event) Ages {
	a := Ages{known: map[fence.Token][]Age{}}
	issuers := issuers{eras: map[fence.Issuer]int{}, known: map[holding]int{}}
	for _, e := range events {
		if e.Kind != Term {
			continue
		}
		t := Dated{e, Age{issuers.era(e), e.Token}}
		a.Terms = append(a.Terms, t)
		if t.Token != 0 && !slices.Contains(a.known[t.Token], t.Age) {
			a.known[t.Token] = append(a.known[t.Token], t.Age)
		}
	}
	for _, known := range a.known {
		slices.SortFunc(known, Age.Compare)
	}
	return a
}

// Worker is the process without its lane: worker-1 of worker-1/postgres.
func Worker(process string) string {
	name, _, _ := strings.Cut(process, "/")
	return name
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
func (s *issuers) era(e Event) int {
	h := holding{Worker(e.Process), e.Token}
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

// Know tells whether anybody has said anything of a term with the token.
func (a Ages) Know(token fence.Token) bool { return len(a.known[token]) > 0 }

// Of dates the token of an operation: that of the term which its worker had under this token last.
func (a Ages) Of(process string, token fence.Token, at int64) Age {
	if known := a.known[token]; len(known) == 1 {
		return known[0]
	}
	found := Age{Token: token}
	for _, t := range a.Terms {
		if t.At > at {
			break
		}
		if t.Token == token && Worker(t.Process) == Worker(process) {
			found = t.Age
		}
	}
	return found
}

// After dates a token that only a database names: the oldest that it can be without going down from before.
func (a Ages) After(token fence.Token, before Age) Age {
	for _, known := range a.known[token] {
		if !before.Newer(known) {
			return known
		}
	}
	if known := a.known[token]; len(known) > 0 {
		return known[0]
	}
	return Age{Token: token}
}
