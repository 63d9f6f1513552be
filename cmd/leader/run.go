package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

const (
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 10 * time.Second
)

// Exit codes of shells (POSIX, Shell Command Language, 2.8.2).
const (
	notRun   = 126
	notFound = 127
)

// commandRunner is one `leader run`: it campaigns until it has run the command once, or with
// --again until the command has ended by itself.
type commandRunner struct {
	*invocation
	program *program
}

func (p *program) runCommand() *cobra.Command {
	inv := &invocation{}
	c := &cobra.Command{
		Use: "run [flags] RESOURCE -- COMMAND [ARGUMENT…]", Annotations: cli.Passes,
		Args:  cobra.MatchAll(inv.forCommand, inv.ofResource, inv.someCommand),
		Short: "Stand for election; as the leader of RESOURCE, run COMMAND",
		Long: `Stand for election; as the leader of RESOURCE, run COMMAND.

The command gets RINGFENCE_RESOURCE, RINGFENCE_TOKEN and RINGFENCE_HOLDER, and
PGOPTIONS with the token added, so that every libpq program in it is fenced without changes;
LEADER_EXPORT changes that. With LEADER_CARRY it gets addresses in place of the token.

It starts once the mark is raised on every store. It runs in its own process group; leader forwards
TERM, INT, HUP, QUIT, USR1, USR2 and WINCH to the command itself, which ends its own processes. A
second TERM or INT, after the command was told to stop, kills the group. On a terminal it is in the
foreground; Ctrl-Z is off, since a stopped leader would hold the resource and do nothing. When the
command ends, leader ends what is left of its group and resigns, and the next candidate leads. What
is left after TERM gets TERM, too, and KILL after LEADER_GRACE.

With --again a lost term does not end leader. Once the command is gone, leader pauses (0.25 s, and up
to 10 s after terms that fail at once) and stands for election again. It still ends when the command
ends by itself, with the command's code; after TERM, with 128 + n; and with 115 for what standing again
cannot fix: a wrong setting, a refused login, a store that an operator has to prepare.
`,
		RunE: p.doing(inv, action{
			uses: []string{useStores, useCommands, useCarrier, useMonitor, useToken},
			run:  (*program).runElected, lasts: true, ready: standing, monitored: true,
		}),
	}
	c.Flags().BoolVar(&inv.again, "again", false, "stand for election again after a lost term")
	return c
}

// someCommand refuses a run without a command.
func (inv *invocation) someCommand(*cobra.Command, []string) error {
	if len(inv.command) == 0 {
		return errors.New("the command is missing: leader run RESOURCE -- COMMAND")
	}
	return nil
}

// runElected implements leader run.
func (p *program) runElected(ctx context.Context, inv *invocation) int {
	inv.logSettings(ctx)
	// Before the election: a leader that cannot start its command would only block the others.
	if _, err := exec.LookPath(inv.command[0]); err != nil {
		if code := cli.Failed(ctx, inv.log, "find the command; did not stand for election",
			err); code != cli.Error {
			return code
		}
		inv.passed = true
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return notFound
		}
		return notRun
	}
	r := &commandRunner{invocation: inv, program: p}
	raisers := p.stores.Raisers(inv.config.Stores, inv.coordinator, inv.config.RaiseTimeout)
	defer stores.Close(raisers)
	return r.campaign(ctx, raisers)
}

// logSettings logs the effective settings, and adds the holder to every later line.
func (inv *invocation) logSettings(ctx context.Context) {
	inv.log = inv.log.With("holder", inv.config.Holder)
	inv.log.LogAttrs(ctx, slog.LevelDebug, "settings",
		settings.Effective(inv.config, inv.config.uses...)...)
}

// campaign stands for election until the command has run, or an error rules that out. With --again
// it also stands again after each term that was lost, but not before the command is gone.
func (r *commandRunner) campaign(ctx context.Context, stores []fence.Raiser) int {
	l := fence.Lead{
		Elector:  &coordinators.Announcer{Coordinator: r.coordinator, Log: r.log},
		Resource: r.resource, Holder: r.config.Holder, Stores: stores,
	}
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		o, err := r.lead(ctx, l)
		code, again := 0, false
		if o == nil {
			code, again = r.reportFailure(ctx, classify(context.Cause(ctx), err), err)
		} else {
			code, again = r.report(o, err)
			if o.ran >= maxBackoff {
				wait = firstBackoff // this term did not fail at once
			}
		}
		if !again {
			return code
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2)): // other candidates may have failed at the same store
		}
	}
}

// lead wins one term and runs the command in it. The outcome is nil if the command was not started.
func (r *commandRunner) lead(ctx context.Context, l fence.Lead) (o *outcome, err error) {
	err = l.Run(ctx, func(ctx context.Context, t *fence.Term) (err error) {
		if err := t.Wait(ctx); err != nil { // a command started now would only be paused
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		o, err = r.runForTerm(ctx, t)
		return err
	})
	return o, err
}

// failure says what to do after a campaign that did not start the command.
type failure struct {
	signalled bool // by a person or the system, which want no advice
	transient bool // stand for election again
	code      int
	next      string // what a person should do
}

// classify looks at the cause with which the context ended, if it did, and at the error of
// fence.Lead.
func classify(ended, err error) failure {
	setup := &fence.SetupError{}
	if s, ok := errors.AsType[supervise.Signalled](ended); ok {
		return failure{signalled: true, code: s.Code()}
	}
	switch {
	case ended != nil:
		return failure{code: cli.Error, next: "nothing: it was cancelled"}
	case errors.Is(err, fence.ErrStale):
		return failure{code: cli.Lost, next: "nothing was written under this token: a newer leader " +
			"has raised the mark. If this repeats, two elections (LEADER_COORDINATOR) share this store"}
	case errors.Is(err, fence.ErrOtherIssuer):
		return failure{code: cli.Error, next: "the store's mark belongs to another coordinator: check " +
			"LEADER_COORDINATOR; if the coordinator was rebuilt, an operator has to run guard adopt"}
	case errors.Is(err, fence.ErrNotInstalled):
		return failure{code: cli.Error, next: "run guard install on that store"}
	case errors.Is(err, fence.ErrNotAuthorized):
		return failure{code: cli.Error, next: "let the store's operator run guard allow for this role " +
			"and resource, or give LEADER_STORES a role that may claim it"}
	case errors.Is(err, carrier.ErrNoGuard):
		return failure{code: cli.Error, next: "name a guard in LEADER_STORES, or leave LEADER_CARRY out"}
	case errors.Is(err, carrier.ErrListen):
		return failure{code: cli.Error, next: "correct the address in LEADER_CARRY"}
	case errors.Is(err, coordinators.ErrCampaign):
		return failure{code: cli.Error, next: "check LEADER_COORDINATOR and its permissions"}
	case errors.As(err, &setup):
		return failure{code: cli.Error, next: setup.Hint}
	case fence.Permanent(err):
		return failure{code: cli.Error, next: "check that the stores in LEADER_STORES, or the " +
			"guards in front of them, fit this version of leader"}
	}
	return failure{transient: true}
}

// reportFailure logs a campaign or a raise that has failed, and returns the exit code, or true to
// stand for election again.
func (r *commandRunner) reportFailure(
	ctx context.Context, f failure, err error,
) (code int, again bool) {
	switch {
	case f.signalled:
		r.log.Info("ended by a signal; the command was not started", "cause", context.Cause(ctx).Error())
		return f.code, false
	case f.transient:
		r.log.Warn("not leader yet; the command was not started; resigned, standing again",
			"cause", err.Error())
		return 0, true
	case f.code == cli.Lost && r.again:
		r.log.Warn("not leader; the command was not started; resigned, standing again",
			"cause", err.Error(), "next", f.next)
		return 0, true
	case f.code == cli.Lost:
		f.next += runAgain
	}
	r.log.Error("not leader; the command was not started", "cause", err.Error(), "next", f.next)
	return f.code, false
}

const (
	runAgain = "; run leader again to stand for election again"
	endLeft  = "end these processes as root or as their user: fenced stores refuse them, other " +
		"systems do not"
)

// report logs the end of a run whose command was started, and returns the exit code, or true to
// stand for election again. err is fence.Lead's: the loss of the term, or a failed resignation.
func (r *commandRunner) report(o *outcome, err error) (code int, again bool) {
	log := r.log.With("token", o.token.String())
	lost := errors.Is(err, fence.ErrLost)
	if err != nil && !lost {
		log.Warn("could not resign; the next leader may have to wait for the session timeout",
			"cause", err.Error())
	}
	switch {
	case o.stopped != nil:
		return r.reportLost(log, o)
	case o.failed != nil:
		log.Error("the command could not be started", "cause", o.failed.Error(),
			"next", "nothing was run; resigned")
		r.passed = true
		return notRun, false
	case lost && o.code != 0 && !o.ordered:
		// The next leader's stores have ended the command's sessions before leader knew of the loss.
		o.stopped = fmt.Errorf("the command failed with code %d after the loss: %w", o.code, err)
		return r.reportLost(log, o)
	}
	if o.starved {
		log = log.With("cause", supervise.WantOfMemory)
	}
	r.passed = true
	if o.left != "" {
		log.Error(
			"the command has ended, but processes of it are still there; the term has ended with it",
			"code", o.code, "left", o.left, "next", endLeft)
		return o.code, false
	}
	log.Info("the command has ended, and the term with it", "code", o.code)
	return o.code, false
}

// reportLost logs the end of a term that was lost.
func (r *commandRunner) reportLost(log *slog.Logger, o *outcome) (code int, again bool) {
	const gone = "lost leadership; the command was stopped, and nothing is left of it"
	log = log.With("cause", o.stopped.Error())
	switch {
	case o.left != "":
		log.Error("lost leadership; the command was killed, but processes of it are still there",
			"left", o.left, "next", o.known()+"; "+endLeft+runAgain)
		return cli.Lost, false
	case !r.again:
		log.Error(gone, "next", o.known()+runAgain)
		return cli.Lost, false
	case o.ordered:
		log.Info(gone, "next", "nothing: a signal ended leader", "signal", o.order.Error())
		return o.order.Code(), false
	}
	log.Warn(gone+"; standing again", "known", o.known())
	return 0, true
}
