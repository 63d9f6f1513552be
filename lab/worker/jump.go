package worker

import (
	"context"
	"sync"
	"time"
	"unsafe"

	"github.com/ringfence/ringfence/fence"
	terms "github.com/ringfence/ringfence/fence/elector"
)

// jumpingElector is an elector whose terms read times from a wall clock that jumps. Its terms
// follow those of the elector inside; only the readings differ.
type jumpingElector struct {
	fence.Elector
	timeout   time.Duration
	clock     func(time.Time) time.Time
	following sync.WaitGroup
}

// Campaign implements fence.Elector.
func (j *jumpingElector) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	inner, err := j.Elector.Campaign(ctx, r, holder)
	if err != nil {
		return nil, err
	}
	confirmed := inner.Deadline()
	term, keeper := terms.NewTerm(inner.Claim(), j.read(confirmed), j.timeout, backing{inner})
	j.following.Go(func() { j.follow(inner, term, keeper, confirmed) })
	return term, nil
}

// read returns the start of the round trip that gave a deadline, as the clock shows it.
func (j *jumpingElector) read(deadline time.Time) time.Time {
	return j.clock(deadline.Add(-j.timeout))
}

// follow passes changes of the term inside on to the keeper, until either term is lost.
// Confirmations send no notification, so it polls.
func (j *jumpingElector) follow(inner, term *fence.Term, k *terms.Keeper, confirmed time.Time) {
	look := time.NewTicker(max(j.timeout/20, time.Millisecond))
	defer look.Stop()
	for {
		state, changed := inner.Watch()
		deadline := inner.Deadline()
		switch {
		case state == fence.Lost:
			k.Lose(context.Cause(inner.Context()))
			return
		case state == fence.Suspended:
			k.Suspend()
		case !deadline.Equal(confirmed):
			confirmed = deadline
			k.Confirm(j.read(deadline))
		}
		select {
		case <-changed:
		case <-look.C:
		case <-term.Context().Done():
			return
		}
	}
}

// backing backs a term with another one.
type backing struct{ inner *fence.Term }

// Acknowledge implements terms.Backing.
func (b backing) Acknowledge(ctx context.Context) error { return b.inner.Acknowledge(ctx) }

// Release implements terms.Backing.
func (b backing) Release(ctx context.Context) error { return b.inner.Resign(ctx) }

// jumped returns t as a clock would have read it whose wall reading is off by the given time. The
// monotonic reading stays the same. Package time cannot make such a time (Add moves both readings),
// so jumped combines t and t.Add, by the layout of time.Time since Go 1.9: wall, ext and loc, where
// ext is the monotonic reading. A test checks that.
func jumped(t time.Time, by time.Duration) time.Time {
	type layout struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}
	moved := t.Add(by)
	(*layout)(unsafe.Pointer(&moved)).ext = (*layout)(unsafe.Pointer(&t)).ext
	return moved
}
