package main

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/environ"
	"github.com/ringfence/ringfence/internal/supervise"
)

// outcome is how a command that was started, or tried to be, came to its end.
type outcome struct {
	token   fence.Token
	failed  error // it could not be started
	stopped error // why it was made to stop; nil when it ended by itself
	code    int   // what leader exits with when it ended by itself
}

// next says what a person whose command was stopped should know and do.
func (o *outcome) next() string {
	const again = "; run leader again to stand for election again"
	switch {
	case errors.Is(o.stopped, fence.ErrDeposed):
		return "an operator or leader resign has ended this term, the next candidate leads" + again
	case errors.Is(o.stopped, fence.ErrExpired):
		return "another leader may have been at work before the command was gone; fenced stores refuse what it wrote late. What was acknowledged to it stands" + again
	case errors.Is(o.stopped, fence.ErrSuperseded):
		return "a newer leader is at work" + again
	case errors.Is(o.stopped, supervise.ErrDisconnected), errors.Is(o.stopped, supervise.ErrOutOfTime):
		return "the command was gone before another leader could be let in; look after the coordinator and the way to it" + again
	}
	return "what was acknowledged to the command stands" + again
}

// work runs the command for one term. It returns when nothing of it is left.
func (c *candidate) work(ctx context.Context, t *fence.Term) (*outcome, error) {
	o := &outcome{token: t.Token()}
	incoming, restore := c.signals.Divert()
	defer restore()
	child, p := &supervise.Child{Reaper: c.reaper}, c.program
	err := child.Start(c.command, environ.Claimed(p.Env, t.Claim()), p.Stdin, p.Stdout, p.Stderr)
	if err != nil {
		o.failed = err
		return o, nil
	}
	log := c.log.With("token", t.Token().String())
	log.Info("leader; the command is started", "pid", child.Pid())
	s := &supervise.Supervisor{
		Child: child, Term: t, Signals: incoming, Log: log,
		Policy: c.config.OnDisconnect, Grace: c.config.Grace, Margin: c.config.margin(),
	}
	o.stopped = s.Supervise(ctx)
	o.code = child.ExitCode()
	return o, nil
}
