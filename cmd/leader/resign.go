package main

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// resign is the subcommand. It deposes the term that it has seen and no other: one that began meanwhile is not meant.
func (p *program) resign(ctx context.Context, s *session) int {
	ctx, cancel := coordinators.Patience(ctx, s.config.SessionTimeout)
	defer cancel()
	queue, err := s.coordinator.Candidates(ctx, s.resource)
	if err != nil {
		return cli.Failed(ctx, s.log, "ask the coordinator; nobody was deposed", err)
	}
	if len(queue) == 0 {
		fmt.Fprintf(p.Stderr, "leader: nobody leads %s\n", s.resource)
		return cli.Error
	}
	leader := queue[0]
	found, err := s.coordinator.Depose(ctx, s.resource, leader.Token)
	if err != nil {
		return cli.Failed(ctx, s.log, fmt.Sprintf("depose token %s, or hear whether it was; `leader status %s` tells", leader.Token, s.resource), err)
	}
	did := "was deposed"
	if !found {
		did = "had given up by itself already"
	}
	fmt.Fprintf(p.Stdout, "%s: %s with token %s %s\n", s.resource, cli.Printable(leader.Holder), leader.Token, did)
	return cli.Done
}
