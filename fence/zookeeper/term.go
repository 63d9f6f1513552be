package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// hold is a term's hold on the ensemble: its candidate, and the session of both.
type hold struct{ *candidate }

var _ fence.Backing = (*hold)(nil)

// keep confirms the term several times per session timeout until it is lost, and sees to it that a term which ended at
// the ensemble leaves nothing here. A term that its holder gives up, or that a store has superseded, keeps its place
// until Release: the holder is still draining.
func (h *hold) keep(term *fence.Term, keeper *fence.Keeper) {
	defer h.s.c.work.Done()
	for term.State() != fence.Lost {
		h.beat(term, keeper)
	}
	cause := context.Cause(term.Context())
	if errors.Is(cause, fence.ErrExpired) || errors.Is(cause, fence.ErrDeposed) {
		h.s.close()
		return
	}
	select {
	case <-h.s.over: // Release
	case <-h.s.c.ctx.Done():
	}
	h.s.close()
}

// beat tells the keeper how the term stands, and waits for the time or the reason to look again.
func (h *hold) beat(term *fence.Term, keeper *fence.Keeper) {
	interval := h.s.timeout / 4
	start := time.Now()
	up, changed, cause := h.s.state()
	var own <-chan zk.Event
	switch {
	case h.s.c.ctx.Err() != nil:
		keeper.Lose(fmt.Errorf("%w: %w", fence.ErrResigned, ErrClosed))
		return
	case cause != nil:
		keeper.Lose(lossOf(cause))
		return
	case !up:
		keeper.Suspend()
	default:
		own = h.confirm(term, keeper, changed)
	}
	again := time.NewTimer(time.Until(start.Add(interval)))
	defer again.Stop()
	select {
	case <-again.C:
	case <-changed:
	case <-own:
	case <-h.s.c.ctx.Done():
	case <-term.Context().Done():
	}
}

// confirm asks the ensemble, and gives up when the connection breaks. While the reply is late the term is suspended; it
// counts all the same when it comes. Returned is the watch on the own znode, or nil when there is none.
func (h *hold) confirm(term *fence.Term, keeper *fence.Keeper, broken <-chan struct{}) <-chan zk.Event {
	ctx, stop := h.s.c.until(term.Context())
	defer stop()
	start := time.Now()
	asked := h.ask(ctx)
	late := time.NewTimer(h.s.timeout / 4)
	defer late.Stop()
	for {
		select {
		case a := <-asked:
			h.judge(a.err, keeper, start)
			return a.own
		case <-late.C:
			keeper.Suspend()
		case <-broken:
			stop()
			broken = nil // one more turn, for the answer
		}
	}
}

type answer struct {
	own <-chan zk.Event
	err error
}

// ask makes the round trip. Its goroutine ends with the answer, or with ctx, and confirm waits for it.
func (h *hold) ask(ctx context.Context) <-chan answer {
	asked := make(chan answer, 1)
	go func() {
		own, err := h.watch(ctx, h.name)
		if err == nil {
			err = h.prove(ctx)
		}
		asked <- answer{own, err}
	}()
	return asked
}

func (h *hold) judge(err error, keeper *fence.Keeper, start time.Time) {
	switch {
	case err == nil:
		keeper.Confirm(start)
	case errors.Is(err, errGone), errors.Is(err, zk.ErrNoNode):
		keeper.Lose(fence.ErrDeposed)
	case !over(err): // why it is over is told by the session's state
		keeper.Suspend()
	}
}

// Release implements fence.Backing: it deletes the candidate by its full name, which no other term ever has, and ends
// the session. Out of reach it waits for the connection to come back as long as ctx and the session last.
func (h *hold) Release(ctx context.Context) error {
	defer h.s.close()
	_, err := read(ctx, h.s, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(h.path(), -1)
	})
	if err == nil || errors.Is(err, zk.ErrNoNode) || over(err) {
		return nil // an ended session has no candidate any more
	}
	return fmt.Errorf("the candidate of %s=%s may stay until its session times out: %w", h.resource, h.token, err)
}
