package main

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/ringfence/ringfence/fence"
)

// outcome is how a command that was started, or tried to be, came to its end.
type outcome struct {
	token   fence.Token
	failed  error // it could not be started
	stopped error // why it was made to stop; nil when it ended by itself
	code    int   // what leader exits with when it ended by itself
}

// Why a command is made to stop although its term is not lost yet.
var (
	errDisconnected = errors.New("the coordinator is out of reach, and LEADER_ON_DISCONNECT=stop")
	errOutOfTime    = errors.New("the coordinator was not heard from, and the session could have expired soon")
)

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
	case errors.Is(o.stopped, errDisconnected), errors.Is(o.stopped, errOutOfTime):
		return "the command was gone before another leader could be let in; look after the coordinator and the way to it" + again
	}
	return "what was acknowledged to the command stands" + again
}

// exitCode is the command's own, or 128+n when signal n has ended it.
func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// work runs the command for one term. It returns when nothing of it is left.
func (c *candidate) work(ctx context.Context, t *fence.Term) (*outcome, error) {
	o := &outcome{token: t.Token()}
	incoming, restore := c.signals.divert()
	defer restore()
	child, p := &child{reaper: c.reaper}, c.program
	err := child.start(c.command, childEnviron(p.env, t.Claim()), p.stdin, p.stdout, p.stderr)
	if err != nil {
		o.failed = err
		return o, nil
	}
	log := c.log.With("token", t.Token().String())
	log.Info("leader; the command is started", "pid", child.pgid)
	s := &supervisor{
		child: child, term: t, signals: incoming, log: log,
		policy: c.config.OnDisconnect, grace: c.config.Grace, margin: c.config.margin(),
	}
	o.stopped = s.supervise(ctx)
	o.code = exitCode(child.cmd.ProcessState)
	return o, nil
}
