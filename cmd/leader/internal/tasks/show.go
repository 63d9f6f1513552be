package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// Show implements the subcommand task show. It returns the exit code.
func (inv *Invocation) Show(ctx context.Context) int {
	found, err := inv.load(ctx, inv.Name)
	if err != nil {
		return cli.Failed(ctx, inv.Log, "read the checkpoint", err)
	}
	if len(found) == 0 {
		u, _ := inv.journalAt()
		fmt.Fprintf(inv.Stderr, "leader: the journal %s has no task %s: it has never begun\n",
			u, inv.Name)
		return cli.Error
	}
	if inv.Output == "json" {
		err = json.NewEncoder(inv.Stdout).Encode(found[0])
	} else {
		err = printTask(inv.Stdout, found[0])
	}
	if err != nil {
		return cli.Failed(ctx, inv.Log, "print", err)
	}
	return cli.Done
}

// List implements the subcommand task list. It returns the exit code.
func (inv *Invocation) List(ctx context.Context) int {
	found, err := inv.load(ctx)
	if err != nil {
		return cli.Failed(ctx, inv.Log, "read the checkpoints", err)
	}
	if inv.Output == "json" {
		err = json.NewEncoder(inv.Stdout).Encode(append([]checkpoint.Checkpoint{}, found...))
	} else {
		err = printTasks(inv.Stdout, found)
	}
	if err != nil {
		return cli.Failed(ctx, inv.Log, "print", err)
	}
	return cli.Done
}

// load reads checkpoints from the journal, with the timeout of commands that do not campaign.
func (inv *Invocation) load(
	ctx context.Context, only ...checkpoint.Name,
) ([]checkpoint.Checkpoint, error) {
	ctx, cancel := coordinators.Patience(ctx, inv.Settings.SessionTimeout)
	defer cancel()
	journal, closeJournal, err := inv.journal(ctx)
	if err != nil {
		return nil, inv.scrubbed(err)
	}
	defer closeJournal()
	found, err := journal.Load(ctx, only...)
	if err != nil {
		u, _ := inv.journalAt()
		return nil, inv.scrubbed(fmt.Errorf("%w: %s", err, loadHint(kindOf(u.URL), err)))
	}
	return found, nil
}

func loadHint(kind string, err error) string {
	if errors.Is(err, fence.ErrNoToken) || errors.Is(err, fence.ErrNotAllowed) {
		return "the journal is behind a guard: set LEADER_JOURNAL to the database itself"
	}
	return "if it is not installed, " + install(kind)
}

func printTask(w io.Writer, cp checkpoint.Checkpoint) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("task", "%s", cp.Task)
	line("resource", "%s", cp.Resource)
	line("status", "%s", cp.Status)
	line("step", "%s", position(cp))
	line("round", "%s", roundsOf(cp))
	line("run", "%d", cp.Run)
	line("version", "%d", cp.Version)
	line("token", "%s", cp.Token)
	line("holder", "%s", cli.Printable(cp.Holder))
	line("saved", "%s", cp.Saved.UTC().Format(time.RFC3339))
	if f := cp.Failure; f != nil {
		line("failure", "step %s, after %d attempts, at %s:",
			cli.Printable(f.Step), f.Attempts, f.At.UTC().Format(time.RFC3339))
		line("", "%s", cli.Printable(f.Message))
	}
	return t.Flush()
}

func printTasks(w io.Writer, all []checkpoint.Checkpoint) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TASK\tRESOURCE\tSTATUS\tSTEP\tROUND\tRUN\tVERSION\tTOKEN\tHOLDER\tSAVED")
	for _, cp := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n",
			cp.Task, cp.Resource, cp.Status, position(cp), roundsOf(cp), cp.Run, cp.Version, cp.Token,
			cli.Printable(cp.Holder), cp.Saved.UTC().Format(time.RFC3339))
	}
	return t.Flush()
}

// position is the next step: "2 of 3: name".
func position(cp checkpoint.Checkpoint) string {
	if cp.Next() == "" {
		return fmt.Sprintf("all %d", len(cp.Steps))
	}
	return fmt.Sprintf("%d of %d: %s", cp.Step+1, len(cp.Steps), cli.Printable(cp.Next()))
}

// roundsOf is the round: "1 of 3".
func roundsOf(cp checkpoint.Checkpoint) string {
	if cp.Rounds == checkpoint.Forever {
		return fmt.Sprintf("%d, forever", cp.Round)
	}
	return fmt.Sprintf("%d of %d", cp.Round, cp.Rounds)
}
