package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/logging"
	"github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/stores"
	"github.com/ringfence/ringfence/internal/supervise"
	"github.com/ringfence/ringfence/internal/tasks"
)

// program is everything that leader has from outside, so that a test can give it something else.
type program struct {
	env    []string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	electors coordinators.Table
	stores   stores.Table
	journals tasks.Journals
	notify   func() (signals <-chan os.Signal, stop func())
}

// command is one of leader's subcommands.
type command struct {
	name      string
	arguments string
	summary   string
	takes     subject
	output    bool // takes -o
	run       func(p *program, ctx context.Context, s *session) int
}

// subject is what a subcommand is about.
type subject int

const (
	takesResource subject = iota
	takesFile
	takesTask // a file, or the name of a task
	takesNothing
)

func commands() []command {
	return []command{
		{"run", "RESOURCE -- COMMAND [ARGUMENT...]", "stand for election; as the leader of RESOURCE, run COMMAND", takesResource, false, (*program).lead},
		{"status", "RESOURCE [-o table|json]", "print who leads RESOURCE; exit 1 when nobody does", takesResource, true, (*program).status},
		{"watch", "RESOURCE [-o table|json]", "print a line at every change of leadership, until interrupted", takesResource, true, (*program).watch},
		{"resign", "RESOURCE", "depose whoever leads RESOURCE, from anywhere; exit 1 when nobody does", takesResource, false, (*program).resign},
		{"task", "FILE", "stand for election; as the leader, run the task in FILE from its checkpoint on", takesFile, false, (*program).runTask},
		{"task show", "FILE|NAME [-o table|json]", "print the checkpoint of a task", takesTask, true, task((*tasks.Session).Show)},
		{"task list", "[-o table|json]", "print the checkpoints of all tasks", takesNothing, true, task((*tasks.Session).List)},
		{"task resume", "FILE|NAME", "let a stopped task go on with the step that it stopped at", takesTask, false, task((*tasks.Session).Resume)},
		{"task restart", "FILE|NAME", "begin a new run of a task, from its first step and starting state", takesTask, false, task((*tasks.Session).Restart)},
	}
}

// session is one call of a subcommand, ready to go.
type session struct {
	request
	config      *config
	tasks       *tasks.Session // nil where the subcommand is about none
	coordinator fence.Coordinator
	signals     *supervise.Signals
	log         *slog.Logger
}

func (p *program) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.usage("", errors.New("no subcommand"))
	}
	if isHelp(args[0]) {
		return p.help()
	}
	if c, rest, ok := find(args); ok {
		return p.dispatch(ctx, c, rest)
	}
	return p.usage("", fmt.Errorf("%q is not a subcommand", args[0]))
}

// find is the subcommand that the arguments begin with: the longer name where two fit.
func find(args []string) (found command, rest []string, ok bool) {
	for _, c := range commands() {
		name := strings.Fields(c.name)
		if len(args) >= len(name) && slices.Equal(args[:len(name)], name) {
			found, rest, ok = c, args[len(name):], true
		}
	}
	return found, rest, ok
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
		return cli.Usage
	}
	s := &session{request: r, config: cfg}
	if err := p.loadTask(c, s); err != nil {
		fmt.Fprintf(p.stderr, "leader: %v\n", err)
		return cli.Usage
	}
	return p.open(ctx, c, s)
}

// open makes the session ready and runs the subcommand.
func (p *program) open(ctx context.Context, c command, s *session) int {
	p.logTo(s, c.takes == takesFile)
	redis.LogTo(s.log)
	ctx, signals, stop := supervise.Listen(ctx, p.notify)
	defer stop()
	s.signals = signals
	coordinator, err := p.electors.Open(ctx, s.config.Coordinator, coordinators.Options{SessionTimeout: s.config.SessionTimeout, Logger: s.log})
	if err != nil {
		return cli.Failed(ctx, s.log, "open the coordinator", err)
	}
	s.coordinator = coordinator
	defer func() {
		if err := coordinator.Close(); err != nil {
			s.log.Warn("closing the coordinator failed", "cause", err)
		}
	}()
	return c.run(p, ctx, s)
}

// logTo makes the session's log. While a task is run on a terminal, its lines pass the bar.
func (p *program) logTo(s *session, progress bool) {
	s.log = logging.New(p.stderr, s.config.Log)
	if progress {
		if s.tasks.Bar = tasks.NewBar(p.stderr, p.env); s.tasks.Bar != nil {
			s.log = slog.New(slog.NewTextHandler(s.tasks.Bar, &slog.HandlerOptions{Level: s.config.Log}))
		}
	}
	if s.resource != "" {
		s.log = s.log.With("resource", string(s.resource))
	}
	if s.tasks != nil && s.tasks.Name != "" {
		s.log = s.log.With("task", string(s.tasks.Name))
	}
}
