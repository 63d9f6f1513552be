package worker

import (
	"context"
	"sync"
	"time"
	"unsafe"

	"github.com/ringfence/ringfence/fence"
)

// jumpy is an elector whose terms are told times of a wall clock that jumps. Whatever the terms of the elector inside
// come to, its own terms are told too; only the readings differ.
type jumpy struct {
	fence.Elector
	timeout   time.Duration
	clock     func(time.Time) time.Time
	following sync.WaitGroup
}

// Campaign implements fence.Elector.
func (j *jumpy) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	inner, err := j.Elector.Campaign(ctx, r, holder)
	if err != nil {
		return nil, err
	}
	confirmed := inner.Deadline()
	term, keeper := fence.NewTerm(inner.Claim(), j.read(confirmed), j.timeout, backing{inner})
	j.following.Go(func() { j.follow(inner, term, keeper, confirmed) })
	return term, nil
}

// read is the start of a round trip that gave a deadline, as the clock shows it.
func (j *jumpy) read(deadline time.Time) time.Time { return j.clock(deadline.Add(-j.timeout)) }

// follow tells the keeper what becomes of the term inside, until either is lost. Nobody is told of a confirmation, so it looks.
func (j *jumpy) follow(inner, term *fence.Term, k *fence.Keeper, confirmed time.Time) {
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

// backing lets a term stand for another one.
type backing struct{ inner *fence.Term }

// Acknowledge implements fence.Backing.
func (b backing) Acknowledge(ctx context.Context) error { return b.inner.Acknowledge(ctx) }

// Release implements fence.Backing.
func (b backing) Release(ctx context.Context) error { return b.inner.Resign(ctx) }

// jumped is t as it would have been read on a clock whose wall reading is off by so much: the monotonic reading stays what
// it was. Package time has no way to make one (Add moves both), so it is put together from t and t.Add, by the layout that
// time.Time has had since Go 1.9: wall, ext and loc, where ext is the monotonic reading. A test holds it to that.
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
