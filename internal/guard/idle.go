package guard

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard/relay"
)

// WhenIdle calls end once nothing has passed through a relay for the limit, or for up to a quarter
// more, and again after each further limit. end may ask unused, under a lock that keeps anything
// from passing, whether that is still so. A limit of 0 means never. stop cancels the context of a
// call that is under way and waits for it; it may be called twice.
//
// No message sets a timer: the watch looks at what the relay counts.
func WhenIdle(
	limit time.Duration, r *relay.Relay, end func(ctx context.Context, unused func() bool),
) (stop func()) {
	if limit <= 0 {
		return func() {}
	}
	w := &idleWatch{activity: r.Activity, end: end, period: max(limit/idleLooks, time.Millisecond)}
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.period, func() { w.look(ctx) })
	return func() {
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timer.Stop()
	}
}

// idleLooks is how often a watch looks within the limit.
const idleLooks = 4

type idleWatch struct {
	activity func() (n uint64, idle bool)
	end      func(context.Context, func() bool)
	period   time.Duration

	mu    sync.Mutex
	timer *time.Timer
	last  uint64
	same  int // looks in a row that have found what the look before had found
}

func (w *idleWatch) look(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	now, idle := w.activity()
	if w.same++; now != w.last || !idle {
		w.last, w.same = now, 0
	}
	if w.same >= idleLooks {
		w.same = 0
		w.end(ctx, func() bool {
			again, idle := w.activity()
			return again == now && idle
		})
	}
	if ctx.Err() == nil {
		w.timer.Reset(w.period)
	}
}
