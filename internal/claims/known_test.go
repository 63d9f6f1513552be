package claims

import (
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
		if got, known := k.Candidate(c); known != (candidate != "") || known && got != candidate {
			t.Errorf("%+v: %q, %v", c, got, known)
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
	for i := range most + 10 {
		k.Won(fence.Claim{Resource: fence.Resource(fmt.Sprintf("r%d", i)), Token: 1}, "c")
	}
	if len(k.leader) > most {
		t.Errorf("%d claims are remembered, the bound is %d", len(k.leader), most)
	}
}
