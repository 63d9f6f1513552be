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
	mostBackoff  = 10 * time.Second
)

// candidate is one `leader run`: it stands for election until it has led once.
type candidate struct {
	*session
	program *program
	reaper  *supervise.Reaper
}

// lead is the subcommand run.
func (p *program) lead(ctx context.Context, s *session) int {
	s.introduce(ctx)
	if _, err := exec.LookPath(s.command[0]); err != nil { // before anybody has to wait for a leader that cannot work
		return cli.Failed(ctx, s.log, "find the command; no election was stood for", err)
	}
	reaper, stop := supervise.StartReaper()
	defer stop()
	c := &candidate{session: s, program: p, reaper: reaper}
	return c.stand(ctx, p.stores.Raisers(s.config.Stores, s.coordinator, s.config.RaiseTimeout))
}

// introduce says in the log who stands for election, and with which settings.
func (s *session) introduce(ctx context.Context) {
	s.log = s.log.With("holder", s.config.Holder)
	s.log.LogAttrs(ctx, slog.LevelDebug, "settings", settings.Effective(s.config)...)
}

// stand campaigns until the command has been run once, or never will be.
func (c *candidate) stand(ctx context.Context, stores []fence.Raiser) int {
	l := fence.Lead{Elector: &coordinators.Announcer{Elector: c.coordinator, Log: c.log}, Resource: c.resource, Holder: c.config.Holder, Stores: stores}
	for wait := firstBackoff; ; wait = min(2*wait, mostBackoff) {
		var o *outcome
		err := l.Run(ctx, func(ctx context.Context, t *fence.Term) (err error) {
			if err := t.Wait(ctx); err != nil { // no command is started only to be paused
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			o, err = c.work(ctx, t)
			return err
		})
		if o != nil {
			return c.report(o, err)
		}
		v := judge(context.Cause(ctx), err)
		if !v.again {
			c.log.Error("not leader; the command was not started", "cause", err.Error(), "next", v.next)
			return v.code
		}
		c.log.Warn("not leader yet; the command was not started; resigned, standing again", "cause", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2)): // apart from the other candidates that failed at the same store
		}
	}
}

// verdict says what follows from an election that did not get as far as the command.
type verdict struct {
	again bool
	code  int
	next  string // what a person should do
}

// judge decides by what ended the context, if anything did, and by the error of fence.Lead.
func judge(ended, err error) verdict {
	if s, ok := errors.AsType[supervise.Signalled](ended); ok {
		return verdict{code: s.Code(), next: "nothing: a signal asked for it"}
	}
	switch {
	case ended != nil:
		return verdict{code: cli.Error, next: "nothing: it was called off"}
	case errors.Is(err, fence.ErrStale):
		return verdict{code: cli.Lost, next: "nothing of this term was written; a newer leader has raised the mark. Run leader again to stand for election again; if this repeats, two elections (LEADER_COORDINATOR) share this store"}
	case errors.Is(err, fence.ErrOtherIssuer):
		return verdict{code: cli.Error, next: "the store's mark belongs to another coordinator: check LEADER_COORDINATOR; if the coordinator was rebuilt, an operator decides with guard adopt"}
	case errors.Is(err, fence.ErrNotInstalled):
		return verdict{code: cli.Error, next: "run guard install on that store"}
	case errors.Is(err, coordinators.ErrCampaign):
		return verdict{code: cli.Error, next: "check LEADER_COORDINATOR and its permissions"}
	case errors.Is(err, fence.ErrMalformed), errors.Is(err, fence.ErrNoToken), errors.Is(err, fence.ErrNotAllowed):
		return verdict{code: cli.Error, next: "check that LEADER_STORES and the guard behind it fit this version of leader"}
	}
	return verdict{again: true}
}

// report ends a run whose command was started. err is fence.Lead's: it tells of the loss and of the resignation.
func (c *candidate) report(o *outcome, err error) int {
	log := c.log.With("token", o.token.String())
	if err != nil && !errors.Is(err, fence.ErrLost) {
		log.Warn("the end was not told to the coordinator; the next leader may have to wait for the session timeout", "cause", err.Error())
	}
	if o.stopped != nil {
		log.Error("lost leadership; the command was stopped and nothing of its process group is left",
			"cause", o.stopped.Error(), "next", o.next())
		return cli.Lost
	}
	if o.failed != nil {
		log.Error("the command could not be run", "cause", o.failed.Error(), "next", "nothing of it was started; leadership was given up")
		return cli.Error
	}
	log.Info("the command has ended, and the term with it", "code", o.code)
	return o.code
}
