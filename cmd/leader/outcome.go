package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/process"
)

// outcome is how the command ended.
type outcome struct {
	token   fence.Token
	failed  error // it could not be started
	stopped error // why it was stopped; nil when it ended by itself
	code    int   // leader's exit code when it ended by itself

	ordered bool                // the operator told it to end
	order   supervise.Signalled // how
	left    string              // its processes that could not be ended
	starved bool                // it was killed, and there was not enough memory
	ran     time.Duration
}

// known says what a person should know after the command was stopped.
func (o *outcome) known() string {
	switch {
	case errors.Is(o.stopped, fence.ErrDeposed):
		return "an operator or leader resign has ended this term; the next candidate leads"
	case errors.Is(o.stopped, fence.ErrExpired):
		return "another leader may have started before the command was gone; fenced stores refused its " +
			"late writes and kept what they had acknowledged: check its effects elsewhere (mail, HTTP)"
	case errors.Is(o.stopped, fence.ErrSuperseded):
		return "a newer leader works now"
	case errors.Is(o.stopped, supervise.ErrDisconnected), errors.Is(o.stopped, supervise.ErrOutOfTime):
		return "the command was gone before another leader could be elected; check the coordinator " +
			"and the network to it"
	}
	return "writes that were acknowledged to the command are kept"
}

// runForTerm runs the command for one term. It returns when nothing is left of it, or what is left
// cannot be ended.
func (r *commandRunner) runForTerm(ctx context.Context, t *fence.Term) (*outcome, error) {
	o, start := &outcome{token: t.Token()}, time.Now()
	child, p := &supervise.Child{Mark: process.NewMark()}, r.program
	only := carrier.NewCommand(child.Mark)
	carried, err := r.carry(ctx, t.Claim(), only)
	if err != nil {
		return nil, err
	}
	defer carried.Close()
	env, err := r.environ(ctx, t.Claim())
	if err != nil {
		return nil, err
	}
	incoming, restore := r.signals.Divert()
	defer restore()
	if ctx.Err() != nil { // a signal that came before
		return nil, context.Cause(ctx)
	}
	if len(r.config.Carry) > 0 {
		env = environ.With(env, carried.Environ())
	}
	err = child.Start(r.command, env, p.Stdin, logging.Direct(p.Stdout), logging.Direct(p.Stderr))
	if err != nil {
		o.failed = err
		return o, nil
	}
	only.Started(child.Pid())
	log := r.log.With("token", t.Token().String())
	log.Info("leader; the command was started", "pid", child.Pid())
	r.unit.manager.Status(fmt.Sprintf("Leading %s under token %s", r.resource, t.Token()))
	defer r.unit.manager.Status(standing(r.invocation))
	s := &supervise.Supervisor{
		Child: child, Term: t, Signals: incoming, Log: log,
		Policy: r.config.OnDisconnect, Grace: r.config.Grace, Margin: r.config.margin(),
	}
	o.stopped = s.Supervise(ctx)
	o.code, o.left, o.ran = child.ExitCode(), child.Left(), time.Since(start)
	o.order, o.ordered = s.Ordered()
	o.starved = child.OutOfMemory()
	return o, nil
}

// environ returns the command's environment beside a carrier.
func (r *commandRunner) environ(ctx context.Context, c fence.Claim) ([]string, error) {
	claims, err := r.config.claims(r.config.Carry)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.RaiseTimeout)
	defer cancel()
	return claims.Environ(ctx, r.program.Env, c)
}

// carry opens what LEADER_CARRY asks for.
func (r *commandRunner) carry(
	ctx context.Context, claim fence.Claim, only *carrier.Command,
) (*carrier.Carrier, error) {
	routes, err := carrier.Routes(r.config.Carry, r.config.Stores)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.RaiseTimeout)
	defer cancel()
	return carrier.Open(ctx, routes, claim, only.Admit, r.log)
}
