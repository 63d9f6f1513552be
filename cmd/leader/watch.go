package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/supervise"
)

// change is a line of watch in the form of -o json.
type change struct {
	Time     time.Time        `json:"time"`
	Resource fence.Resource   `json:"resource"`
	Leader   *fence.Candidate `json:"leader"` // null when nobody leads
}

// watch is the subcommand. A signal is the orderly end of it.
func (p *program) watch(ctx context.Context, s *session) int {
	var told *fence.Candidate
	first := true
	err := s.coordinator.Watch(ctx, s.resource, func(queue []fence.Candidate) error {
		leader := newStanding(s.resource, queue).Leader
		if !first && same(told, leader) {
			return nil // something further down the queue
		}
		first, told = false, leader
		return change{time.Now().UTC(), s.resource, leader}.print(p.Stdout, s.output)
	})
	if _, ok := errors.AsType[supervise.Signalled](context.Cause(ctx)); ok || err == nil {
		return cli.Done
	}
	return cli.Failed(ctx, s.log, "watch the election", err)
}

func same(a, b *fence.Candidate) bool {
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
	_, err := fmt.Fprintf(w, "%s  token=%s  holder=%s  ready=%s\n", at, c.Leader.Token, cli.Printable(c.Leader.Holder), yes(c.Leader.Ready))
	return err
}
