package history

import (
	"testing"
)

// A guard can raise the mark for a leader that never learns that it leads, so no term names its
// token.
func TestATokenThatNoTermNamesIsOfTheIssuerThatCountsNow(t *testing.T) {
	terms := ReadTerms([]Event{
		{Kind: Term, Process: "worker-1", State: Won, Token: 9, Issuer: "one"},
		{Kind: Term, Process: "worker-2", State: Won, Token: 3, Issuer: "two"},
	})
	before := terms.AgeAfter(3, Age{})
	if a := terms.AgeAfter(4, before); !a.Newer(before) {
		t.Errorf("4 of the second issuer is %+v, no newer than %+v", a, before)
	}
	if a := terms.AgeAfter(2, before); a.Newer(before) {
		t.Errorf("2 is %+v, newer than %+v", a, before)
	}
}
