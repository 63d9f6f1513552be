package marks

import (
	"context"
	"sync"
)

// together makes one call for many callers. While a call is under way, all who come wait, and the
// next call is for all of them. So a crowd has one call under way at a time, and the call for a
// caller begins after the caller has come.
type together[T, R any] struct {
	mu   sync.Mutex
	turn chan struct{} // holds a value while a call is under way
	next *crowd[T, R]  // those who wait
}

// crowd is the callers of one call.
type crowd[T, R any] struct {
	items  []T
	done   chan struct{} // closed after the call
	result R
	err    error
	left   bool // the context of the call has ended: it may say nothing about the others
}

// do calls call for the item and for those of all others who wait, and returns what it returns. The
// first who waits makes the call, under its context.
func (t *together[T, R]) do(
	ctx context.Context, item T, call func(context.Context, []T) (R, error),
) (R, error) {
	for {
		c, first := t.join(item)
		if first {
			t.lead(ctx, c, call)
			return c.result, c.err
		}
		select {
		case <-c.done:
			if !c.left {
				return c.result, c.err
			}
		case <-ctx.Done():
			var none R
			return none, context.Cause(ctx)
		}
	}
}

// join adds an item to the next call. The first to join makes the call.
func (t *together[T, R]) join(item T) (c *crowd[T, R], first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == nil {
		t.turn = make(chan struct{}, 1)
	}
	if first = t.next == nil; first {
		t.next = &crowd[T, R]{done: make(chan struct{})}
	}
	t.next.items = append(t.next.items, item)
	return t.next, first
}

// lead waits until no call is under way, and makes the call for a crowd.
func (t *together[T, R]) lead(
	ctx context.Context, c *crowd[T, R], call func(context.Context, []T) (R, error),
) {
	defer close(c.done)
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
		t.close()
		c.result, c.err = call(ctx, c.items)
	case <-ctx.Done():
		t.close()
		c.err = context.Cause(ctx)
	}
	c.left = ctx.Err() != nil
}

// close lets nobody else join the crowd that waits.
func (t *together[T, R]) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = nil
}
