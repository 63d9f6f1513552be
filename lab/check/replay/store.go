package replay

import (
	"slices"

	"github.com/ringfence/ringfence/fence"
)

// store is the state of Postgres, as in the models.
type store struct {
	run      string // of the server
	complete bool   // the registry
	marks    map[fence.Resource]mark
	gates    map[fence.Resource]mark // that are open
	records  map[record]term
	gone     map[string]bool // backends whose records were removed

	terms   map[fence.Resource][]term // in the order of their first raises
	highest map[fence.Resource]term   // the last one that was raised
	newest  map[fence.Resource]term   // that was let in
	opened  map[opening]bool
}

// term is a token with its issuer.
type term struct {
	issuer fence.Issuer
	token  fence.Token
}

// mark is a row of ringfence_private.mark or ringfence_private.gate.
type mark struct {
	term
	start  string // the run in which it was written
	copied bool
}

func (m mark) String() string {
	switch {
	case m.token == 0:
		return "not there"
	case m.copied:
		return m.token.String() + ", which was restored"
	}
	return m.token.String() + ", raised in run " + m.start
}

// record is the key of a record.
type record struct {
	resource fence.Resource
	backend  string
}

type opening struct {
	resource fence.Resource
	term
}

func newStore() store {
	return store{
		marks: map[fence.Resource]mark{}, gates: map[fence.Resource]mark{}, records: map[record]term{},
		gone: map[string]bool{}, terms: map[fence.Resource][]term{}, highest: map[fence.Resource]term{},
		newest: map[fence.Resource]term{}, opened: map[opening]bool{},
	}
}

// begins takes note of the server's run. In a new one nobody of an earlier run is left.
func (s *store) begins(run string) {
	if run != "" && run != s.run {
		s.run = run
		clear(s.records)
	}
}

// other returns a backend with a record of a resource, or of everybody, that is not of this backend
// and term.
func (s *store) other(r fence.Resource, backend string, t term) string {
	var all []string
	for k, of := range s.records {
		if k.backend != backend && (k.resource == r && of != t || k.resource == everybody) {
			all = append(all, k.backend)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// rank returns a term's place among those of a resource, and gives it the next one if it has none.
func (s *store) rank(r fence.Resource, t term) int {
	i := slices.Index(s.terms[r], t)
	if i < 0 {
		s.terms[r] = append(s.terms[r], t)
		return len(s.terms[r]) - 1
	}
	return i
}

// older compares terms.
func (s *store) older(r fence.Resource, a, b term) bool {
	if a.issuer == b.issuer {
		return a.token < b.token
	}
	return b != term{} && s.rank(r, a) < s.rank(r, b)
}

// letIn takes note that a term was let in.
func (s *store) letIn(r fence.Resource, t term) {
	if s.older(r, s.newest[r], t) || s.newest[r] == (term{}) {
		s.newest[r] = t
	}
}

// termOf returns the term of a token whose issuer is not known: the last one that was raised.
func (s *store) termOf(r fence.Resource, token fence.Token) term {
	for _, t := range slices.Backward(s.terms[r]) {
		if t.token == token {
			return t
		}
	}
	return term{token: token}
}
