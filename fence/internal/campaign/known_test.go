package campaign

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

func TestOnlyTheLastLeaderIsKnown(t *testing.T) {
	var k Known
	first := fence.Claim{Resource: "orders", Token: 1, Issuer: "a", Holder: "x"}
	next, elsewhere := first, first
	next.Token, elsewhere.Issuer = 2, "b"
	want := func(c fence.Claim, candidate string) {
		t.Helper()
		got, _ := k.Candidate(c, func() (string, error) { return "", errors.New("unknown") })
		if got != candidate {
			t.Errorf("%+v: %q", c, got)
		}
	}
	want(first, "")
	want(fence.Claim{}, "")
	k.Won(first, "one")
	want(first, "one")
	want(next, "")
	want(elsewhere, "")
	first.Holder = "y" // says nothing about who leads
	want(first, "one")
	k.Won(next, "two")
	want(first, "")
	want(next, "two")
	k.Forget(next.Resource)
	want(next, "")
}

func TestTheMemoryIsBounded(t *testing.T) {
	var k Known
	for i := range maxKnown + 10 {
		k.Won(fence.Claim{Resource: fence.Resource(fmt.Sprintf("r%d", i)), Token: 1}, "c")
	}
	if len(k.leader) > maxKnown {
		t.Errorf("%d claims are remembered, the bound is %d", len(k.leader), maxKnown)
	}
}
