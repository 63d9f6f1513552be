package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/flaw"
)

// failpointJournal is a journal with failpoints before and after it publishes, and with the flaw.
type failpointJournal struct {
	*pgjournal.Journal
	b *taskWorker
}

// Publish implements checkpoint.Journal.
func (w failpointJournal) Publish(
	ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint,
) error {
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
func (w failpointJournal) Transact(
	ctx context.Context, c fence.Claim,
	work func(ctx context.Context, tx pgx.Tx) (checkpoint.Checkpoint, error),
) error {
	err := w.Journal.Transact(ctx, c, func(
		ctx context.Context, tx pgx.Tx,
	) (checkpoint.Checkpoint, error) {
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

// unconditional is the flaw: it writes a checkpoint whatever the mark is and whatever is stored.
func (b *taskWorker) unconditional(
	ctx context.Context, _ fence.Claim, cp checkpoint.Checkpoint,
) error {
	document, err := json.Marshal(cp)
	if err != nil {
		return err
	}
	_, err = b.world.Exec(ctx, `insert into ringfence_private.checkpoint
			(task, resource, version, token, checkpoint) values ($1, $2, $3, $4, $5)
		on conflict (task) do update set
			version = excluded.version, token = excluded.token, checkpoint = excluded.checkpoint`,
		cp.Task, cp.Resource, cp.Version, int64(cp.Token), document)
	if err != nil {
		// It can be repeated: it has no condition.
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return nil
}

// publishLate does what the flaw allows: a deposed leader publishes its old checkpoint late, after
// others have published newer ones.
func (b *taskWorker) publishLate(ctx context.Context) {
	for {
		saved, err := b.journal.Load(ctx, TaskName)
		if err == nil && len(saved) == 1 && saved[0].Version > b.last.Version {
			break
		}
		if ctx.Err() != nil {
			b.w.note("nobody has published since: no late publish")
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
	claim := fence.Claim{Resource: b.last.Resource, Token: b.last.Token}
	b.write(ctx, claim, func(string) error { return b.unconditional(ctx, claim, b.last) })
}
