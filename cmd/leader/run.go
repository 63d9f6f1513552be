package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/supervise"
)

const (
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 10 * time.Second
)

// commandRunner is one `leader run`: it campaigns until it has run the command once.
type commandRunner struct {
	*invocation
	program *program
	reaper  *supervise.Reaper
}

// runCommand implements the subcommand run.
func (p *program) runCommand(ctx context.Context, inv *invocation) int {
	inv.logSettings(ctx)
	// Before the election: a leader that cannot start its command would only block the others.
	if _, err := exec.LookPath(inv.command[0]); err != nil {
		return cli.Failed(ctx, inv.log, "find the command; did not stand for election", err)
	}
	reaper, stop := supervise.StartReaper()
	defer stop()
	r := &commandRunner{invocation: inv, program: p, reaper: reaper}
	return r.campaign(ctx,
		p.stores.Raisers(inv.config.Stores, inv.coordinator, inv.config.RaiseTimeout))
}

// logSettings logs the effective settings, and adds the holder to every later line.
func (inv *invocation) logSettings(ctx context.Context) {
	inv.log = inv.log.With("holder", inv.config.Holder)
	inv.log.LogAttrs(ctx, slog.LevelDebug, "settings", settings.Effective(inv.config)...)
}

// campaign stands for election until the command has run once, or a permanent error rules that out.
func (r *commandRunner) campaign(ctx context.Context, stores []fence.Raiser) int {
	l := fence.Lead{
		Elector:  &coordinators.Announcer{Elector: r.coordinator, Log: r.log},
		Resource: r.resource, Holder: r.config.Holder, Stores: stores,
	}
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		var o *outcome
		err := l.Run(ctx, func(ctx context.Context, t *fence.Term) (err error) {
			if err := t.Wait(ctx); err != nil { // a command started now would only be paused
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			o, err = r.runForTerm(ctx, t)
			return err
		})
		if o != nil {
			return r.report(o, err)
		}
		f := classify(context.Cause(ctx), err)
		if !f.transient {
			r.log.Error("not leader; the command was not started", "cause", err.Error(), "next", f.next)
			return f.code
		}
		r.log.Warn("not leader yet; the command was not started; resigned, standing again",
			"cause", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2)): // other candidates may have failed at the same store
		}
	}
}

// failure says what to do after a campaign that did not start the command.
type failure struct {
	transient bool // stand for election again
	code      int
	next      string // what a person should do
}

// classify looks at the cause with which the context ended, if it did, and at the error of
// fence.Lead.
func classify(ended, err error) failure {
	if s, ok := errors.AsType[supervise.Signalled](ended); ok {
		return failure{code: s.Code(), next: "nothing: a signal ended it"}
	}
	switch {
	case ended != nil:
		return failure{code: cli.Error, next: "nothing: it was cancelled"}
	case errors.Is(err, fence.ErrStale):
		return failure{code: cli.Lost, next: "nothing was written under this token: a newer leader " +
			"has raised the mark. Run leader again to stand for election again; if this repeats, two " +
			"elections (LEADER_COORDINATOR) share this store"}
	case errors.Is(err, fence.ErrOtherIssuer):
		return failure{code: cli.Error, next: "the store's mark belongs to another coordinator: check " +
			"LEADER_COORDINATOR; if the coordinator was rebuilt, an operator has to run guard adopt"}
	case errors.Is(err, fence.ErrNotInstalled):
		return failure{code: cli.Error, next: "run guard install on that store"}
	case errors.Is(err, coordinators.ErrCampaign):
		return failure{code: cli.Error, next: "check LEADER_COORDINATOR and its permissions"}
	case errors.Is(err, fence.ErrMalformed), errors.Is(err, fence.ErrNoToken),
		errors.Is(err, fence.ErrNotAllowed):
		return failure{code: cli.Error, next: "check that the stores in LEADER_STORES, or the " +
			"guards in front of them, fit this version of leader"}
	}
	return failure{transient: true}
}

// report logs the end of a run whose command was started, and returns the exit code. err is
// fence.Lead's: the loss of the term, or a failed resignation.
func (r *commandRunner) report(o *outcome, err error) int {
	log := r.log.With("token", o.token.String())
	if err != nil && !errors.Is(err, fence.ErrLost) {
		log.Warn("could not resign; the next leader may have to wait for the session timeout",
			"cause", err.Error())
	}
	if o.stopped != nil {
		log.Error("lost leadership; the command was stopped, and its process group is gone",
			"cause", o.stopped.Error(), "next", o.next())
		return cli.Lost
	}
	if o.failed != nil {
		log.Error("the command could not be started", "cause", o.failed.Error(),
			"next", "nothing was run; resigned")
		return cli.Error
	}
	log.Info("the command has ended, and the term with it", "code", o.code)
	return o.code
}
