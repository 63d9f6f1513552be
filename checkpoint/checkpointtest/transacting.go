package checkpointtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

func landTogether[Tx any](k *txStage[Tx]) {
	c := k.lead(orders)
	f := k.follow(k.Second, nightly)
	k.left(k.commit(c, full(c, nightly), "a", "b"), "a", "b")
	k.left(k.publish(c, version(2, c, nightly, "published")), "a", "b")
	k.left(k.commit(c, version(3, c, nightly, "no effects")), "a", "b")
	c = k.lead(orders)
	last := k.commit(c, version(4, c, nightly, "next leader"), "c")
	k.left(last, "a", "b", "c")
	k.equal(k.take(k.Second, c, nightly), last)
	f.until(last, 0)
	f.end()
}

// tries is more than a pool has connections, so that every leaked connection shows.
const tries = 20

func failedWork[Tx any](k *txStage[Tx]) {
	c := k.lead(orders)
	boom := errors.New("boom")
	landed := k.commit(c, version(1, c, nightly, "a"), "a")
	for range tries {
		err := k.transact(k.Journal, c, k.having(version(2, c, nightly, "failed"), boom, "never"))
		if !errors.Is(err, boom) {
			k.Fatalf("work failed with %v, transact with %v", boom, err)
		}
	}
	k.left(landed, "a")
	k.left(k.commit(c, version(2, c, nightly, "b"), "b"), "a", "b")
}

func panickingWork[Tx any](k *txStage[Tx]) {
	c := k.lead(orders)
	for range tries {
		if err := caught(func() error {
			return k.transact(k.Journal, c, func(ctx context.Context, tx Tx) (checkpoint.Checkpoint, error) {
				_ = k.effect(ctx, tx, "never")
				panic("boom")
			})
		}); err == nil {
			k.Fatal("the panic was lost")
		}
	}
	k.left(checkpoint.Checkpoint{})
	k.left(k.commit(c, version(1, c, nightly, "a"), "a"), "a")
}

// caught returns the error of do, or its panic as an error.
func caught(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return do()
}

func conflictingWork[Tx any](k *txStage[Tx]) {
	c := k.lead(orders)
	var landed checkpoint.Checkpoint
	var effects []string
	for n := range int64(3) {
		for _, wrong := range []int64{n, n + 2, n + 1000} {
			if wrong == 0 {
				continue
			}
			err := k.transact(k.Second, c, k.having(version(wrong, c, nightly, "wrong"), nil, "never"))
			k.answered(err, checkpoint.ErrConflict)
			k.left(landed, effects...)
		}
		effects = append(effects, fmt.Sprint("effect ", n))
		landed = k.commit(c, version(n+1, c, nightly, "right"), effects[n])
		k.left(landed, effects...)
		k.answered(k.transact(k.Journal, c, k.having(landed, nil, "twice")), checkpoint.ErrConflict)
		k.left(landed, effects...)
	}
}

func oneTransactionLands[Tx any](k *txStage[Tx]) {
	c := k.lead(orders)
	var effects []string
	for n := range int64(5) {
		rival := func(i int) string { return fmt.Sprintf("rival %d of version %d", i, n+1) }
		answers := atOnce(4, func(i int) error {
			j := []checkpoint.Journal{k.Journal, k.Second}[i%2]
			return k.transact(j, c, k.having(version(n+1, c, nightly, rival(i)), nil, rival(i)))
		})
		winner := rival(k.onlyWinner(answers))
		effects = append(effects, winner)
		k.left(version(n+1, c, nightly, winner), effects...)
	}
}

func powerlessWork[Tx any](k *txStage[Tx]) {
	old := k.lead(orders)
	landed := k.commit(old, version(1, old, nightly, "old"), "old")
	fresh := k.lead(orders)
	ahead, stranger, nobody := fresh, fresh, fresh
	ahead.Token++
	stranger.Issuer += "-rebuilt"
	nobody.Resource = stock
	for c, sentinel := range map[fence.Claim]error{old: fence.ErrStale, ahead: nil, stranger: nil,
		nobody: nil} {
		for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
			for n := range int64(3) {
				k.refused(k.transact(j, c, k.having(version(n+1, c, nightly, "powerless"), nil,
					"never")), sentinel)
			}
			k.left(landed, "old")
		}
	}
	k.left(k.commit(fresh, version(2, fresh, nightly, "fresh"), "fresh"), "old", "fresh")
}

func misfitWork[Tx any](k *txStage[Tx]) {
	c := k.lead(orders)
	landed := k.commit(c, version(1, c, nightly, "a"), "a")
	stranger := k.lead(stock)
	err := k.transact(k.Journal, stranger, k.having(version(2, stranger, nightly, "stranger"),
		nil, "never"))
	k.answered(err, checkpoint.ErrOtherResource)
	k.left(landed, "a")
	err = k.transact(k.Journal, stranger, k.having(version(2, c, nightly, "forged"), nil, "never"))
	if err == nil {
		k.Fatalf("a checkpoint of %q was published under a claim to %q", orders, stock)
	}
	k.left(landed, "a")
	if k.Limit > 0 {
		large := version(2, c, nightly, "large")
		large.State = json.RawMessage(`"` + strings.Repeat("x", k.Limit) + `"`)
		k.answered(k.transact(k.Journal, c, k.having(large, nil, "never")), checkpoint.ErrTooLarge)
		k.left(landed, "a")
	}
	k.left(k.commit(c, version(2, c, nightly, "b"), "b"), "a", "b")
}

func forgottenWork[Tx any](k *txStage[Tx]) {
	c := k.lead(orders)
	k.commit(c, version(1, c, nightly, "a"), "a")
	k.forget(k.Second, c, nightly)
	for n := int64(2); n <= 3; n++ {
		err := k.transact(k.Journal, c, k.having(version(n, c, nightly, "continued"), nil, "never"))
		k.answered(err, checkpoint.ErrConflict)
		k.left(checkpoint.Checkpoint{}, "a")
	}
	k.commit(c, version(1, c, nightly, "b"), "b")
	p := k.pauses(c, version(2, c, nightly, "paused"), []string{"never"}, nil)
	k.opens(p)
	fresh := k.leadInTime(p)
	k.forget(k.Journal, fresh, nightly)
	k.doesNotLand(p)
	k.left(checkpoint.Checkpoint{}, "a", "b")
	for n := int64(1); n <= 2; n++ {
		err := k.transact(k.Journal, c, k.having(version(n, c, nightly, "old"), nil, "never"))
		k.refused(err, fence.ErrStale)
		k.left(checkpoint.Checkpoint{}, "a", "b")
	}
}

func cutShortWork[Tx any](k *txStage[Tx]) {
	rnd := k.random()
	c := k.lead(orders)
	var effects []string
	usual := fastest(func(n int64) {
		effects = append(effects, fmt.Sprint(n))
		k.commit(c, version(n, c, nightly, "whole"), fmt.Sprint(n))
	})
	for n := int64(warmUps) + 1; n < 30; n++ {
		cp := version(n, c, nightly, "cut")
		ctx, cancel := context.WithTimeout(k.ctx, time.Duration(rnd.Int64N(int64(2*usual))))
		err := k.Journal.(checkpoint.Transactor[Tx]).Transact(ctx, c, k.having(cp, nil, fmt.Sprint(n)))
		cancel()
		k.truthful(err, c, cp)
		if k.load(k.Second, nightly)[0].Nonce == cp.Nonce {
			effects = append(effects, fmt.Sprint(n))
		}
	}
	if got := k.effects(k); fmt.Sprint(got) != fmt.Sprint(effects) {
		k.Fatalf("the effects are %q, want those whose checkpoints landed, %q", got, effects)
	}
}
