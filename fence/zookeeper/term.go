package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// backing is a fence.Backing: the term's candidate and its session.
type backing struct{ *enrolment }

var _ fence.Backing = (*backing)(nil)

// keep confirms the term several times per session timeout until it is lost. If the term ended at
// the ensemble, keep ends the session. If the holder gives the term up, or a store has superseded
// it, the candidate stays until Release, because the holder is still draining.
func (b *backing) keep(term *fence.Term, keeper *fence.Keeper) {
	for term.State() != fence.Lost {
		b.beat(term, keeper)
	}
	cause := context.Cause(term.Context())
	if errors.Is(cause, fence.ErrExpired) || errors.Is(cause, fence.ErrDeposed) {
		b.s.Close()
		return
	}
	select {
	case <-b.s.Over(): // Release
	case <-b.s.Client().Context().Done():
	}
	b.s.Close()
}

// beat reports the state to the keeper, and waits until it is time to confirm again.
func (b *backing) beat(term *fence.Term, keeper *fence.Keeper) {
	interval := b.s.Timeout() / 4
	start := time.Now()
	up, changed, cause := b.s.State()
	var own <-chan zk.Event
	switch {
	case b.s.Client().Context().Err() != nil:
		keeper.Lose(fmt.Errorf("%w: %w", fence.ErrResigned, ErrClosed))
		return
	case cause != nil:
		keeper.Lose(lossOf(cause))
		return
	case !up:
		keeper.Suspend()
	default:
		own = b.confirm(term, keeper, changed)
	}
	again := time.NewTimer(time.Until(start.Add(interval)))
	defer again.Stop()
	select {
	case <-again.C:
	case <-changed:
	case <-own:
	case <-b.s.Client().Context().Done():
	case <-term.Context().Done():
	}
}

// confirm makes a confirming round trip, and gives up when the connection breaks. While the reply
// is late, the term is suspended; the reply still counts when it comes. confirm returns the watch
// on the own znode, or nil.
func (b *backing) confirm(
	term *fence.Term, keeper *fence.Keeper, broken <-chan struct{},
) <-chan zk.Event {
	ctx, stop := b.s.Client().WithClose(term.Context())
	defer stop()
	start := time.Now()
	asked := b.ask(ctx)
	late := time.NewTimer(b.s.Timeout() / 4)
	defer late.Stop()
	for {
		select {
		case a := <-asked:
			b.judge(a.err, keeper, start)
			return a.own
		case <-late.C:
			keeper.Suspend()
		case <-broken:
			stop()
			broken = nil // one more turn for the answer
		}
	}
}

type answer struct {
	own <-chan zk.Event
	err error
}

// ask makes the round trip in a goroutine, which ends with the answer or with ctx. confirm waits
// for it.
func (b *backing) ask(ctx context.Context) <-chan answer {
	asked := make(chan answer, 1)
	go func() {
		own, err := b.watch(ctx, b.name)
		if err == nil {
			err = b.prove(ctx)
		}
		asked <- answer{own, err}
	}()
	return asked
}

func (b *backing) judge(err error, keeper *fence.Keeper, start time.Time) {
	switch {
	case err == nil:
		keeper.Confirm(start)
	case errors.Is(err, errGone), errors.Is(err, zk.ErrNoNode):
		keeper.Lose(fence.ErrDeposed)
	case !ensemble.SessionOver(err): // the session's state says why it is over
		keeper.Suspend()
	}
}

// Release implements fence.Backing. It deletes the candidate by its full name, which no other term
// ever has, and ends the session. Without a connection it waits for one, until ctx or the session
// ends.
func (b *backing) Release(ctx context.Context) error {
	defer b.s.Close()
	_, err := ensemble.Retry(ctx, b.s, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(b.path(), -1)
	})
	if err == nil || errors.Is(err, zk.ErrNoNode) || ensemble.SessionOver(err) {
		return nil // the candidate has ended with the session
	}
	return fmt.Errorf("the candidate of %s=%s may stay until its session times out: %w",
		b.resource, b.token, err)
}
