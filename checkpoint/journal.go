package checkpoint

import (
	"context"

	"github.com/ringfence/ringfence/fence"
)

// Journal stores checkpoints. Its methods may be called from any goroutine and any number of
// processes.
//
// An error is a refusal (*fence.Refusal) or matches one of ErrTransient, ErrUnknown, ErrConflict,
// ErrTooLarge and ErrCorrupt. Refusals are ErrStale, ErrOtherIssuer, ErrNotInstalled, and
// ErrNotRaised: the mark is not raised to the claim or may have been lost, so call Raise and try
// again. A journal in the coordinator has ErrNotLeader in its place. Any other error comes from bad
// input or settings: retrying cannot fix it, and nothing has landed.
type Journal interface {
	// Raise raises the journal's mark to the claim: see fence.Raiser. A journal in the coordinator
	// has no mark and only checks that the claim leads.
	fence.Raiser

	// TakeOver checks that the claim is the mark and reads a task's checkpoint, in one atomic step.
	// After it has returned, no publish of an older leader succeeds. If the stored version is have,
	// the caller's copy is current: same is true and cp is not sent. A task that was never
	// published has version 0.
	TakeOver(ctx context.Context, c fence.Claim, task Name,
		have int64) (cp Checkpoint, same bool, err error)

	// Publish writes a checkpoint, only if the claim is the mark and the stored version is the one
	// before cp.Version (0: nothing is stored). The checkpoint is durable when Publish returns nil.
	// ErrConflict: another version is stored, and nothing was changed. The stored one may be cp
	// itself, published by an earlier call whose answer was lost; compare the Nonce.
	Publish(ctx context.Context, c fence.Claim, cp Checkpoint) error

	// Forget deletes a task's checkpoint, only if the claim is the mark and the task was published
	// under the claim's resource (ErrOtherResource). The deletion is durable when Forget returns
	// nil. It is no error if nothing is stored: the task was never published, or is forgotten
	// already. ErrUnknown: the checkpoint may be deleted, or may be later, while the claim is the
	// mark; call Forget again.
	//
	// Forget only a task that nobody runs now or again, such as that of a job that has ended. Run
	// again it would begin at its first step. A standby's copy is compared by its version alone, so
	// do not give a forgotten name to another task: use a new one.
	//
	// Older leaders are refused as before, so none of them brings the task back. A leader under this
	// claim that still runs the task gets ErrConflict for what it publishes next, unless that is
	// version 1. A Runner that has seen a checkpoint of the task does not begin it again, and returns
	// ErrConflict. Followers are not told of the deletion, and go on.
	Forget(ctx context.Context, c fence.Claim, task Name) error

	// Load reads checkpoints without a claim, by name, or all of them if no name is given. It
	// leaves out tasks that were never published.
	Load(ctx context.Context, only ...Name) ([]Checkpoint, error)

	// Follow calls each with the current checkpoint, if there is one, and again after it changes,
	// until ctx ends or each returns an error, which Follow returns. It may skip versions. It
	// survives disconnections.
	Follow(ctx context.Context, task Name, each func(Checkpoint) error) error
}

// Transactor is a Journal in a database with transactions. It commits the effects of a synchronous
// step together with its checkpoint. Tx is the driver's transaction.
type Transactor[Tx any] interface {
	// Transact runs work in a transaction under the claim, writes the checkpoint that work returns
	// as Publish does, and commits. If work fails, nothing has landed and Transact returns its
	// error unchanged, or ErrTransient if the database says that a retry may succeed. ErrUnknown:
	// the connection broke during COMMIT; everything landed or nothing did. ErrUncommitted: the
	// database refused to commit.
	Transact(ctx context.Context, c fence.Claim,
		work func(ctx context.Context, tx Tx) (Checkpoint, error)) error
}
