package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
)

func (p *program) resignCommand() *cobra.Command {
	inv := &invocation{}
	return &cobra.Command{
		Use: "resign [flags] RESOURCE", Args: cobra.MatchAll(cobra.ExactArgs(1), inv.ofResource),
		Short: "Depose the leader of RESOURCE, from any machine",
		Long: `Depose the leader of RESOURCE, from any machine. The exit code is 1 when there is none.
`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              p.doing(inv, action{run: (*program).resign}),
	}
}

// resign implements leader resign. It deposes exactly the term that it has read, and none that
// began in the meantime.
func (p *program) resign(ctx context.Context, inv *invocation) int {
	ctx, cancel := coordinators.Patience(ctx, inv.config.SessionTimeout)
	defer cancel()
	queue, err := inv.coordinator.Candidates(ctx, inv.resource)
	if err != nil {
		return cli.Failed(ctx, inv.log, "query the coordinator; no leader was deposed", err)
	}
	if len(queue) == 0 {
		fmt.Fprintf(p.Stderr, "leader: nobody leads %s\n", inv.resource)
		return cli.Error
	}
	leader := queue[0]
	found, err := inv.coordinator.Depose(ctx, inv.resource, leader.Token)
	if err != nil {
		return cli.Failed(ctx, inv.log, fmt.Sprintf(
			"confirm that token %s was deposed; check with `leader status %s` before you retry",
			leader.Token, inv.resource), err)
	}
	did := "was deposed"
	if !found {
		did = "had already resigned or expired"
	}
	fmt.Fprintf(p.Stdout, "%s: %s with token %s %s\n", inv.resource, cli.Printable(leader.Holder),
		leader.Token, did)
	return cli.Done
}
