package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/ringfence/ringfence/fence"
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
	ctx, cancel := s.patience(ctx)
	defer cancel()
	queue, err := s.coordinator.Candidates(ctx, s.resource)
	if err != nil {
		return p.failed(ctx, s.log, "ask the coordinator", err)
	}
	now := newStanding(s.resource, queue)
	if err := now.print(p.stdout, s.output); err != nil {
		return p.failed(ctx, s.log, "print", err)
	}
	if now.Leader == nil {
		return exitError
	}
	return exitDone
}

// patience bounds how long a command that only asks waits for the coordinator.
func (s *session) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	why := fmt.Errorf("no answer of the coordinator within LEADER_SESSION_TIMEOUT=%s", s.config.SessionTimeout)
	return context.WithTimeoutCause(ctx, s.config.SessionTimeout, why)
}

func (s standing) print(w io.Writer, form string) error {
	if form == "json" {
		return json.NewEncoder(w).Encode(s)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tLEADER\tTOKEN\tREADY\tCANDIDATES")
	holder, token, ready := "-", "-", "-"
	if s.Leader != nil {
		holder, token, ready = printable(s.Leader.Holder), s.Leader.Token.String(), yes(s.Leader.Ready)
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\n", s.Resource, holder, token, ready, len(s.Candidates))
	return t.Flush()
}

// printable quotes what another process has chosen to be called where it would spoil a line or a terminal.
func printable(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || r == '"' || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
