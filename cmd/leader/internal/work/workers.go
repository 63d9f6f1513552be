package work

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// Workers prints the workers of a group.
func (v *Invocation) Workers(ctx context.Context) int {
	return v.with(ctx, "list the workers", func(ctx context.Context, q *queueview.View) error {
		o, err := q.Overview(ctx, 0)
		switch {
		case err != nil:
			return err
		case v.Output == "json":
			return json.NewEncoder(v.Stdout).Encode(append([]queueview.Worker{}, o.Workers...))
		case len(o.Workers) == 0:
			fmt.Fprintf(v.Stderr, "leader: the group %s has no workers\n", v.Group)
			return nil
		}
		t := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "WORKER\tJOBS\tLABELS\tKINDS\tID\tNOTE")
		for _, w := range o.Workers {
			notes := ""
			if w.Assigns {
				notes = "assigns jobs"
			}
			if w.Stopping {
				notes = "stops"
			}
			fmt.Fprintf(t, "%s\t%d of %d\t%s\t%s\t%s\t%s\n", cli.Printable(w.Name), w.Jobs, w.Capacity,
				list(w.Labels), list(w.Kinds), w.ID, notes)
		}
		return t.Flush()
	})
}

// list joins names that other processes have chosen.
func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	var all []string
	for _, name := range names {
		all = append(all, cli.Printable(name))
	}
	return strings.Join(all, ",")
}

func age(since time.Time) string { return time.Since(since).Round(time.Second).String() }
