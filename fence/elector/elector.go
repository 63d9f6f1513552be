// Package elector is for those who write an elector or a coordinator, or a test that needs a term.
// It has what operators see of elections (Coordinator, Observer, Candidate), and it makes terms
// and keeps them. Leader programs do not need it.
//
//	term, keeper := elector.NewTerm(claim, start, timeout, backing)
//	keeper.Confirm(start)          // a round trip that began at start has proved the term
//	keeper.Suspend()               // the coordinator is out of reach
//	keeper.Lose(fence.ErrDeposed)
//
// The documentation of package fence has the life of a term. Coordinators use
// fence/internal/campaign, which does all of this.
package elector

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/internal/bridge"
)

// Backing is the coordinator's side of a term. Its methods affect this term and no other.
type Backing interface {
	// Acknowledge publishes that this leader is ready, or will as soon as the coordinator takes
	// writes. It fails once the term is over at the coordinator.
	Acknowledge(ctx context.Context) error
	// Release gives the term up at the coordinator and frees what belongs to it. It is called once,
	// after the term is lost. After an error the next leader may have to wait for the session
	// timeout.
	Release(ctx context.Context) error
}

// Keeper is the elector's side of a term. The elector reports the coordinator's answers to it.
type Keeper struct{ side keeper }

type keeper = interface {
	Confirm(start time.Time)
	Suspend()
	Lose(cause error)
}

type backing = interface {
	Acknowledge(ctx context.Context) error
	Release(ctx context.Context) error
}

var newTerm = bridge.NewTerm.(func(fence.Claim, time.Time, time.Duration, backing) (*fence.Term,
	keeper))

// NewTerm makes the term that an elector has just won. confirmed is the start of the round trip
// that proved it, and timeout is the session timeout that the coordinator granted. The term is lost
// at confirmed+timeout unless Confirm extends it. NewTerm returns a lost term if that time has
// passed.
func NewTerm(
	claim fence.Claim, confirmed time.Time, timeout time.Duration, b Backing,
) (*fence.Term, *Keeper) {
	term, side := newTerm(claim, confirmed, timeout, b)
	return term, &Keeper{side}
}

// Confirm records a round trip to the coordinator that proved the term. start is when the round
// trip began, because its reply may be old by the time it is read. A suspended term becomes active
// again. A term that is past its deadline stays lost: another leader may exist already.
func (k *Keeper) Confirm(start time.Time) { k.side.Confirm(start) }

// Suspend records that the coordinator is out of reach.
func (k *Keeper) Suspend() { k.side.Suspend() }

// Lose ends the term with one of fence.ErrExpired, fence.ErrDeposed, fence.ErrResigned or an error
// that wraps one. The first cause stays.
func (k *Keeper) Lose(cause error) { k.side.Lose(cause) }
