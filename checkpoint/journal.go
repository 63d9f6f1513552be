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
// ErrNotLeader: the mark is not raised to the claim or may have been lost, so call Raise and try
// again. Any other error comes from bad input or settings: retrying cannot fix it, and nothing has
// landed.
type Journal interface {
	// Raise raises the journal's mark to the claim: see fence.Raiser. A journal in the coordinator
	// has no mark and only checks that the claim leads.
	fence.Raiser

	// Take checks that the claim is the mark and reads a task's checkpoint, in one atomic step.
	// After it has returned, no publish of an older leader succeeds. If the stored version is have,
	// the caller's copy is current: same is true and cp is not sent. A task that was never
	// published has version 0.
	Take(ctx context.Context, c fence.Claim, task Name,
		have int64) (cp Checkpoint, same bool, err error)

	// Publish writes a checkpoint, only if the claim is the mark and the stored version is the one
	// before cp.Version (0: nothing is stored). The checkpoint is durable when Publish returns nil.
	// ErrConflict: another version is stored, and nothing was changed. The stored one may be cp
	// itself, published by an earlier call whose answer was lost; compare the Nonce.
	Publish(ctx context.Context, c fence.Claim, cp Checkpoint) error

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
