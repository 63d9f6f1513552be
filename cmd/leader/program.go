package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/logging"
	"github.com/ringfence/ringfence/store/redis"
)

// The exit codes of leader's own; whatever else it exits with is the command's.
const (
	exitDone  = 0
	exitError = 1
	exitUsage = 2
	exitLost  = 3
)

// program is everything that leader has from outside, so that a test can give it something else.
type program struct {
	env    []string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	electors map[string]openElector
	stores   map[string]openStore
	notify   func() (signals <-chan os.Signal, stop func())
}

// command is one of leader's subcommands.
type command struct {
	name      string
	arguments string
	summary   string
	output    bool // takes -o
	run       func(p *program, ctx context.Context, s *session) int
}

func commands() []command {
	return []command{
		{"run", "RESOURCE -- COMMAND [ARGUMENT...]", "stand for election; as the leader of RESOURCE, run COMMAND", false, (*program).lead},
		{"status", "RESOURCE [-o table|json]", "print who leads RESOURCE; exit 1 when nobody does", true, (*program).status},
		{"watch", "RESOURCE [-o table|json]", "print a line at every change of leadership, until interrupted", true, (*program).watch},
		{"resign", "RESOURCE", "depose whoever leads RESOURCE, from anywhere; exit 1 when nobody does", false, (*program).resign},
	}
}

// session is one call of a subcommand, ready to go.
type session struct {
	request
	config      *config
	coordinator fence.Coordinator
	signals     *signals
	log         *slog.Logger
}

func (p *program) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.usage("", errors.New("no subcommand"))
	}
	if isHelp(args[0]) {
		return p.help()
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return p.dispatch(ctx, c, args[1:])
		}
	}
	return p.usage("", fmt.Errorf("%q is not a subcommand", args[0]))
}

// dispatch checks the arguments, then the settings, then opens the coordinator: nobody has to wait for a connection to
// learn about a typing error.
func (p *program) dispatch(ctx context.Context, c command, args []string) int {
	r, err := c.parse(args)
	if errors.Is(err, errHelp) {
		return p.helpOn(c)
	}
	if err != nil {
		return p.usage(c.name, err)
	}
	cfg, err := p.settings()
	if err != nil {
		fmt.Fprintf(p.stderr, "leader: %v\n`leader %s -h` lists every setting with its default and meaning.\n", err, c.name)
		return exitUsage
	}
	log := logging.New(p.stderr, cfg.Log).With("resource", string(r.resource))
	redis.LogTo(log)
	ctx, signals, stop := p.listen(ctx)
	defer stop()
	coordinator, err := p.open(ctx, cfg, log)
	if err != nil {
		return p.failed(ctx, log, "open the coordinator", err)
	}
	defer func() {
		if err := coordinator.Close(); err != nil {
			log.Warn("closing the coordinator failed", "cause", err)
		}
	}()
	return c.run(p, ctx, &session{request: r, config: cfg, coordinator: coordinator, signals: signals, log: log})
}

// failed reports an error of leader's own. Where a signal has ended the waiting, that is what is reported.
func (p *program) failed(ctx context.Context, log *slog.Logger, doing string, err error) int {
	if s, ok := errors.AsType[signalled](context.Cause(ctx)); ok {
		log.Info("ended by a signal", "cause", s.Error())
		return s.code()
	}
	log.Error("could not "+doing, "cause", err.Error())
	return exitError
}
