package main

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
)

// A leader that wakes finds both: its command has ended, and its term is over.
func TestACommandThatFailsBesideTheLossOfItsTermIsALoss(t *testing.T) {
	r := &commandRunner{invocation: &invocation{}}
	r.log = slog.New(slog.DiscardHandler)
	lost := fmt.Errorf("run: %w", fence.ErrExpired)
	for _, test := range []struct {
		ended outcome
		err   error
		code  int
	}{
		{outcome{code: 2}, lost, cli.Lost},
		{outcome{code: 2}, nil, 2},
		{outcome{}, lost, cli.Done},
		{outcome{code: 143, ordered: true}, lost, 143},
	} {
		if code, again := r.report(&test.ended, test.err); code != test.code || again {
			t.Errorf("%+v, %v: exit code %d, again %t", test.ended, test.err, code, again)
		}
	}
}
