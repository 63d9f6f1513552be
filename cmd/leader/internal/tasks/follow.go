package tasks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
)

// followEvery is how often Follow reads the journal.
const followEvery = time.Second

// Follow calls each with the task's checkpoint after every change, until ctx ends. It ends at once,
// with the error, if the journal cannot be opened here: only those who run the task need it. Call
// Load first.
func (inv *Invocation) Follow(ctx context.Context, each func(checkpoint.Checkpoint)) error {
	journal, closeJournal, err := inv.journal(ctx)
	if err != nil {
		return inv.scrubbed(err)
	}
	defer closeJournal()
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for last := (checkpoint.Checkpoint{}); ; {
		limited, cancel := context.WithTimeout(ctx, inv.Settings.SessionTimeout)
		found, err := journal.Load(limited, inv.Name)
		cancel()
		if err == nil && len(found) > 0 &&
			(found[0].Version != last.Version || found[0].Run != last.Run) {
			last = found[0]
			each(last)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
