package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// change is a line of watch, as -o json prints it.
type change struct {
	Time     time.Time          `json:"time"`
	Resource fence.Resource     `json:"resource"`
	Leader   *elector.Candidate `json:"leader"` // null when nobody leads
}

func (p *program) watchCommand() *cobra.Command {
	inv := &invocation{}
	c := &cobra.Command{
		Use: "watch [flags] RESOURCE", Args: cobra.MatchAll(cobra.ExactArgs(1), inv.ofResource),
		Short:             "Print a line at every change of leadership, until interrupted",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.doing(inv, action{run: (*program).watch}),
	}
	cli.Output(c, &inv.output, "table", "json")
	return c
}

// watch implements leader watch. A signal ends it with exit code 0.
func (p *program) watch(ctx context.Context, inv *invocation) int {
	var last *elector.Candidate
	first := true
	err := inv.coordinator.Watch(ctx, inv.resource, func(queue []elector.Candidate) error {
		leader := newElectionStatus(inv.resource, queue).Leader
		if !first && same(last, leader) {
			return nil // a change further down the queue
		}
		first, last = false, leader
		return change{time.Now().UTC(), inv.resource, leader}.print(p.Stdout, inv.output)
	})
	if _, ok := errors.AsType[supervise.Signalled](context.Cause(ctx)); ok || err == nil {
		return cli.Done
	}
	return cli.Failed(ctx, inv.log, "watch the election", err)
}

func same(a, b *elector.Candidate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (c change) print(w io.Writer, form string) error {
	if form == "json" {
		return json.NewEncoder(w).Encode(c)
	}
	at := c.Time.Format("2006-01-02T15:04:05.000Z07:00")
	if c.Leader == nil {
		_, err := fmt.Fprintf(w, "%s  nobody leads %s\n", at, c.Resource)
		return err
	}
	_, err := fmt.Fprintf(w, "%s  token=%s  holder=%s  ready=%s\n", at, c.Leader.Token,
		cli.Printable(c.Leader.Holder), yes(c.Leader.Ready))
	return err
}
