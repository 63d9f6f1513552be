package checkpointtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// paused is a leader that pauses inside its transaction.
type paused struct {
	opened chan struct{} // closed when it pauses
	resume func()        // wakes it
	done   chan struct{} // closed when it has ended
	err    error         // to be read after done
}

// pauses opens a transaction with effects before and after a pause. It returns its checkpoint even
// if its context has ended.
func (k *txStage[Tx]) pauses(
	c fence.Claim, cp checkpoint.Checkpoint, before, after []string,
) *paused {
	woken := make(chan struct{})
	p := &paused{opened: make(chan struct{}), resume: sync.OnceFunc(func() {
		close(woken)
	}), done: make(chan struct{})}
	var running sync.WaitGroup
	k.Cleanup(func() { p.resume(); running.Wait() })
	running.Go(func() {
		defer close(p.done)
		once := sync.OnceFunc(func() { close(p.opened) })
		p.err = k.transact(k.Journal, c, func(ctx context.Context, tx Tx) (checkpoint.Checkpoint, error) {
			_, _ = k.having(cp, nil, before...)(ctx, tx)
			once()
			<-woken
			_, _ = k.having(cp, nil, after...)(ctx, tx)
			return cp, nil
		})
	})
	return p
}

func openWhenDeposed[Tx any](k *txStage[Tx]) {
	var landed checkpoint.Checkpoint
	var effects []string
	for _, shape := range []struct{ before, after []string }{
		{[]string{"before"}, nil}, {nil, []string{"after"}}, {nil, nil},
		{[]string{"before"}, []string{"after"}},
	} {
		for _, first := range []string{"newer", "older"} {
			old := k.lead(orders)
			p := k.pauses(old, version(landed.Version+1, old, nightly, "paused"), shape.before, shape.after)
			k.opens(p)
			fresh := k.leadInTime(p)
			if first == "older" {
				k.doesNotLand(p)
				k.left(landed, effects...)
			}
			value := fmt.Sprint("of ", fresh)
			landed = k.commit(fresh, version(landed.Version+1, fresh, nightly, "fresh"), value)
			effects = append(effects, value)
			k.doesNotLand(p)
			k.left(landed, effects...)
			again := version(landed.Version+1, old, nightly, "old, again")
			k.refused(k.transact(k.Journal, old, k.having(again, nil, "never")), fence.ErrStale)
			k.left(landed, effects...)
		}
	}
}

// opens waits for the pause.
func (k *stage) opens(p *paused) {
	k.Helper()
	select {
	case <-p.opened:
	case <-p.done:
		k.Fatalf("the transaction ended before its work: %v", p.err)
	case <-k.ctx.Done():
		k.Fatal("no transaction was opened in time")
	}
}

// doesNotLand wakes the paused leader.
func (k *stage) doesNotLand(p *paused) {
	k.Helper()
	p.resume()
	select {
	case <-p.done:
		if p.err == nil {
			k.Fatal("the older leader's transaction landed")
		}
	case <-k.ctx.Done():
		k.Fatal("the older leader's transaction did not end")
	}
}

// leadInTime makes a new leader while another one is paused, and fails the test if the new one has
// to wait for it.
func (k *stage) leadInTime(p *paused) fence.Claim {
	k.Helper()
	deadline := k.patience / 2
	watch := time.AfterFunc(deadline, p.resume)
	fresh := k.lead(orders)
	if !watch.Stop() {
		k.Fatalf("an open transaction of the older leader delayed the newer one for more than %v",
			deadline)
	}
	return fresh
}
