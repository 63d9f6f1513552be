package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// electionStatus is the state of an election, as -o json prints it: tokens are strings.
type electionStatus struct {
	Resource   fence.Resource      `json:"resource"`
	Leader     *elector.Candidate  `json:"leader"` // null when nobody leads
	Candidates []elector.Candidate `json:"candidates"`
}

func newElectionStatus(r fence.Resource, queue []elector.Candidate) electionStatus {
	s := electionStatus{Resource: r, Candidates: queue}
	if len(queue) == 0 {
		s.Candidates = []elector.Candidate{}
		return s
	}
	s.Leader = &queue[0]
	return s
}

func (p *program) statusCommand() *cobra.Command {
	inv := &invocation{}
	c := &cobra.Command{
		Use: "status [flags] RESOURCE", Args: cobra.MatchAll(cobra.ExactArgs(1), inv.ofResource),
		Short: "Print who leads RESOURCE",
		Long: `Print who leads RESOURCE. The exit code is 1 when nobody does.
`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.doing(inv, action{run: (*program).status}),
	}
	cli.Output(c, &inv.output, "table", "json")
	return c
}

// status implements leader status.
func (p *program) status(ctx context.Context, inv *invocation) int {
	ctx, cancel := coordinators.Patience(ctx, inv.config.SessionTimeout)
	defer cancel()
	queue, err := inv.coordinator.Candidates(ctx, inv.resource)
	if err != nil {
		return cli.Failed(ctx, inv.log, "query the coordinator", err)
	}
	now := newElectionStatus(inv.resource, queue)
	if err := now.print(p.Stdout, inv.output); err != nil {
		return cli.Failed(ctx, inv.log, "print", err)
	}
	if now.Leader == nil {
		return cli.Error
	}
	return cli.Done
}

func (s electionStatus) print(w io.Writer, form string) error {
	if form == "json" {
		return json.NewEncoder(w).Encode(s)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tLEADER\tTOKEN\tREADY\tCANDIDATES")
	holder, token, ready := "-", "-", "-"
	if s.Leader != nil {
		holder, token = cli.Printable(s.Leader.Holder), s.Leader.Token.String()
		ready = yes(s.Leader.Ready)
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\n", s.Resource, holder, token, ready, len(s.Candidates))
	return t.Flush()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
