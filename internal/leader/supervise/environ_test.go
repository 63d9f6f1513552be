package supervise

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

func TestPGOPTIONSIsSetIfItWasEmpty(t *testing.T) {
	claim := fence.Claim{Resource: "orders", Token: 9007199254740993, Holder: "me"}
	got := Claimed([]string{"A=1", "PGOPTIONS=", "RINGFENCE_HOLDER=old"}, claim)
	want := []string{
		"A=1", "RINGFENCE_RESOURCE=orders", "RINGFENCE_TOKEN=9007199254740993", "RINGFENCE_HOLDER=me",
		"PGOPTIONS=-c fence.orders=9007199254740993",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
