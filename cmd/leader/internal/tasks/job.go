package tasks

import (
	"context"
	"fmt"
	"io"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// RunIn runs the task of a job in the job's term, from its checkpoint. If it was done before the
// term of the token began, it begins a new run first; token 0 never does. Commands write to stdout
// and stderr. It returns what checkpoint.Runner.RunIn returns, or an error of the journal. Call
// Load first.
func (inv *Invocation) RunIn(
	ctx context.Context, term *fence.Term, began fence.Token, stdout, stderr io.Writer,
) (checkpoint.Checkpoint, error) {
	journal, closeJournal, err := inv.journal(ctx)
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("open the journal: %w", inv.scrubbed(err))
	}
	defer closeJournal()
	r := &taskRun{
		Invocation: inv, ctx: ctx, stdout: stdout, stderr: stderr,
		elector: new(recordingElector),
	}
	r.elector.won.Store(term)
	c, closeRedis := r.runner(journal)
	defer closeRedis()
	if began != 0 {
		c.Lead.Stores = append(c.Lead.Stores, renewal{term, journal, inv.Name, began})
	}
	return r.inContext(func(ctx context.Context) (checkpoint.Checkpoint, error) {
		return c.RunIn(ctx, term)
	})
}

// renewal begins a new run of a task that was done before the term of a token began. An issuer's
// terms of a resource have rising tokens, and each checkpoint has those of its term. So if the
// worker is gone after the new run was published, or has ended, the next one finds a token that is
// not lower, and begins none. A checkpoint of another issuer is from before the coordinator was
// rebuilt, so from an earlier round. It is among the stores, which are raised before the task goes
// on, and again after an error.
type renewal struct {
	term    *fence.Term
	journal checkpoint.Journal
	task    checkpoint.Name
	began   fence.Token
}

// Raise implements fence.Raiser.
func (r renewal) Raise(ctx context.Context, c fence.Claim) error {
	if err := r.journal.Raise(ctx, c); err != nil {
		return err
	}
	found, err := r.journal.Load(ctx, r.task)
	if err != nil || len(found) == 0 || found[0].Status != checkpoint.Done {
		return err
	}
	if found[0].Issuer == c.Issuer && found[0].Token >= r.began {
		return nil
	}
	if _, err = checkpoint.Restart(ctx, r.term, r.journal, r.task); err != nil {
		return fmt.Errorf("begin a new run of the task: %w", err)
	}
	return nil
}
