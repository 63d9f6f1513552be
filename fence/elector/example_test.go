package elector_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// lone is the coordinator's side of the term of the only process there is.
type lone struct{}

func (lone) Acknowledge(context.Context) error { return nil }
func (lone) Release(context.Context) error     { return nil }

// A program without a coordinator makes a term for a test of its leader code.
func ExampleNewTerm() {
	claim := fence.Claim{Resource: "orders", Token: 7, Issuer: elector.Unverified, Holder: "test"}
	term, keeper := elector.NewTerm(claim, time.Now(), time.Minute, lone{})
	fmt.Println(term.State(), term.Token())
	keeper.Suspend()
	fmt.Println(term.State())
	keeper.Confirm(time.Now())
	fmt.Println(term.State())
	keeper.Lose(fence.ErrDeposed)
	fmt.Println(term.State(), context.Cause(term.Context()))
	// Output:
	// active 7
	// suspended
	// active
	// lost leadership lost: deposed, its election entry was deleted
}
