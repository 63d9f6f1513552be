package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/checkpoint"
	cpg "github.com/ringfence/ringfence/checkpoint/postgres"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/flaw"
)

// watched is a journal with the failpoints at its publishes, and with the flaw.
type watched struct {
	*cpg.Journal
	b *job
}

// Publish implements checkpoint.Journal.
func (w watched) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	w.b.reach("before publish")
	publish := w.Journal.Publish
	if w.b.w.c.Flaw == flaw.Unconditional {
		publish = w.b.unconditional
	}
	err := publish(ctx, c, cp)
	if err == nil {
		w.b.reach("after publish")
	}
	return err
}

// Transact implements checkpoint.Transactor.
func (w watched) Transact(ctx context.Context, c fence.Claim, work func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error)) error {
	err := w.Journal.Transact(ctx, c, func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error) {
		cp, err := work(ctx, tx)
		if err == nil {
			w.b.reach("before publish")
		}
		return cp, err
	})
	if err == nil {
		w.b.reach("after publish")
	}
	return err
}

// unconditional is the flaw: a checkpoint is written whatever the mark is, and whatever is stored.
func (b *job) unconditional(ctx context.Context, _ fence.Claim, cp checkpoint.Checkpoint) error {
	document, err := json.Marshal(cp)
	if err != nil {
		return err
	}
	_, err = b.world.Exec(ctx, `insert into ringfence.checkpoint (task, resource, version, token, checkpoint) values ($1, $2, $3, $4, $5)
		on conflict (task) do update set version = excluded.version, token = excluded.token, checkpoint = excluded.checkpoint`,
		cp.Task, cp.Resource, cp.Version, int64(cp.Token), document)
	if err != nil {
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err) // it may be repeated: it asks for nothing
	}
	return nil
}

// setBack is what the flaw makes possible: a deposed leader publishes late what it still has in hand, once others have gone on.
func (b *job) setBack(ctx context.Context) {
	for {
		saved, err := b.journal.Load(ctx, TaskName)
		if err == nil && len(saved) == 1 && saved[0].Version > b.last.Version {
			break
		}
		if ctx.Err() != nil {
			b.w.note("nobody has gone on: no late publish")
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
	claim := fence.Claim{Resource: b.last.Resource, Token: b.last.Token}
	b.write(ctx, claim, func(string) error { return b.unconditional(ctx, claim, b.last) })
}
