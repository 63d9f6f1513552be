package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
)

var errOfWork = errors.New("the work failed")

func randomWork[Tx any](k *txStage[Tx]) {
	w := newWorld(k.stage)
	for w.moves = range 200 {
		switch n := w.rnd.IntN(100); {
		case n < 5:
			w.newLeader()
		case n < 7:
			w.impostor()
		case n < 10:
			w.forgetOne()
		case n < 20:
			w.publishOne()
		default:
			transactOne(w, k)
		}
	}
	w.sameInTheEnd()
	var want []string
	for _, e := range w.model.Effects() {
		want = append(want, e.Value)
	}
	if got := k.effects(k); !slices.Equal(got, want) {
		k.Fatalf("the effects are %q, the model has %q", got, want)
	}
}

// transactOne makes a transaction with up to two effects. Sometimes its work fails.
func transactOne[Tx any](w *world, k *txStage[Tx]) {
	j, c, task, at := w.move()
	cp := version(max(at+pick[int64](w.rnd, 1, 1, 1, 1, 0, 2), 1), c, task,
		fmt.Sprint("move ", w.moves))
	end := pick(w.rnd, nil, nil, nil, errOfWork)
	var values []string
	for i := range w.rnd.IntN(3) {
		values = append(values, fmt.Sprintf("effect %d of move %d", i, w.moves))
	}
	err := k.transact(j, c, k.having(cp, end, values...))
	want := w.model.Transact(w.ctx, c, listing(cp, end, values))
	if end != nil && errors.Is(err, end) {
		return // a journal may check the claim after the work; nothing has landed either way
	}
	w.agree(err, want, "transact version %d over %d of %s under %s", cp.Version, at, task, c)
}

// listing returns the same work for the model.
func listing(
	cp checkpoint.Checkpoint, end error, values []string,
) func(context.Context, *Tx) (checkpoint.Checkpoint, error) {
	return func(_ context.Context, tx *Tx) (checkpoint.Checkpoint, error) {
		for _, v := range values {
			tx.Append(v)
		}
		return cp, end
	}
}
