package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// standing is how an election stands, in the form of -o json. Tokens are strings there.
type standing struct {
	Resource   fence.Resource    `json:"resource"`
	Leader     *fence.Candidate  `json:"leader"` // null when nobody leads
	Candidates []fence.Candidate `json:"candidates"`
}

func newStanding(r fence.Resource, queue []fence.Candidate) standing {
	s := standing{Resource: r, Candidates: queue}
	if len(queue) == 0 {
		s.Candidates = []fence.Candidate{}
		return s
	}
	s.Leader = &queue[0]
	return s
}

// status is the subcommand.
func (p *program) status(ctx context.Context, s *session) int {
	ctx, cancel := coordinators.Patience(ctx, s.config.SessionTimeout)
	defer cancel()
	queue, err := s.coordinator.Candidates(ctx, s.resource)
	if err != nil {
		return cli.Failed(ctx, s.log, "ask the coordinator", err)
	}
	now := newStanding(s.resource, queue)
	if err := now.print(p.Stdout, s.output); err != nil {
		return cli.Failed(ctx, s.log, "print", err)
	}
	if now.Leader == nil {
		return cli.Error
	}
	return cli.Done
}

func (s standing) print(w io.Writer, form string) error {
	if form == "json" {
		return json.NewEncoder(w).Encode(s)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tLEADER\tTOKEN\tREADY\tCANDIDATES")
	holder, token, ready := "-", "-", "-"
	if s.Leader != nil {
		holder, token, ready = cli.Printable(s.Leader.Holder), s.Leader.Token.String(), yes(s.Leader.Ready)
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
