package checkpoint

import (
	"context"

	"github.com/ringfence/ringfence/fence"
)

// Journal is where checkpoints live. Every method may be called from any goroutine and any number
// of processes.
//
// Errors are refusals (*fence.Refusal: ErrStale, ErrOtherIssuer, ErrNotInstalled; ErrNotLeader says
// that the mark is not raised to the claim, or may have been lost: Raise, then try again) or match
// one of ErrTransient, ErrUnknown, ErrConflict, ErrTooLarge, ErrCorrupt. Any other error is of bad
// input or settings: it does not go away by itself, and nothing has landed.
type Journal interface {
	// Raise makes the claim the one under which checkpoints are published: see fence.Raiser.
	// Journals whose fence is the coordinator itself have nothing to do.
	fence.Raiser

	// Take reads the checkpoint of a task under the claim, in one atomic step with the check that
	// the claim is the mark: no older leader publishes any more once it has returned. When the
	// version is have, the caller's copy is right: same is true and the checkpoint is not sent. A
	// task that was never published has version 0.
	Take(ctx context.Context, c fence.Claim, task Name,
		have int64) (cp Checkpoint, same bool, err error)

	// Publish writes a checkpoint: only if the claim is the mark, and only if what is stored has
	// the version before cp.Version (0: nothing is stored). It is durable when it returns nil.
	// ErrConflict: another version is stored, and nothing was changed; that may be this very one,
	// published by an earlier call whose answer was lost (see Nonce).
	Publish(ctx context.Context, c fence.Claim, cp Checkpoint) error

	// Load reads checkpoints without a claim, by name; all of them when none is named. One that was
	// never published is left out.
	Load(ctx context.Context, only ...Name) ([]Checkpoint, error)

	// Follow calls each with the checkpoint as it is, if there is one, and again when it has a
	// newer version, until ctx ends or each returns an error, which it returns. Versions in between
	// may be left out. It rides out disconnections.
	Follow(ctx context.Context, task Name, each func(Checkpoint) error) error
}

// Transactor is a Journal that lives in a database with transactions, in which synchronous steps
// can have their effects and their checkpoint committed as one. Tx is the driver's transaction.
type Transactor[Tx any] interface {
	// Transact runs work in a transaction under the claim and commits it with the checkpoint that
	// work returns, which is written as by Publish. Once work has failed nothing has landed; its
	// error comes back as it is, unless the database says that the same transaction may succeed
	// when tried again (ErrTransient). ErrUnknown: the connection broke during COMMIT; all of it
	// landed or nothing did. ErrUncommitted: the database refused to commit it.
	Transact(ctx context.Context, c fence.Claim,
		work func(ctx context.Context, tx Tx) (Checkpoint, error)) error
}
