package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/logging"
	"github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/stores"
	"github.com/ringfence/ringfence/internal/supervise"
	"github.com/ringfence/ringfence/internal/tasks"
)

// program is leader, with everything that it has from outside.
type program struct {
	cli.Streams

	electors coordinators.Table
	stores   stores.Table
	journals tasks.Journals
	notify   func() (signals <-chan os.Signal, stop func())
}

func (p *program) run(ctx context.Context, args []string) int {
	frame := cli.Program[*config]{
		Streams: p.Streams, Name: "leader", Commands: p.commands(), Load: p.settings, SetsApart: true,
		Help: cli.Help{
			About:    "leader runs a command or a task as the leader of a resource, and tells how elections stand.",
			Settings: &config{}, ExitCodes: exitCodes, Columns: [2]int{12, 34},
		},
	}
	return frame.Main(ctx, args)
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
		{
			name: "run", arguments: "RESOURCE -- COMMAND [ARGUMENT...]", run: (*program).lead,
			summary: "stand for election; as the leader of RESOURCE, run COMMAND",
		},
		{
			name: "status", arguments: "RESOURCE [-o table|json]", output: true, run: (*program).status,
			summary: "print who leads RESOURCE; exit 1 when nobody does",
		},
		{
			name: "watch", arguments: "RESOURCE [-o table|json]", output: true, run: (*program).watch,
			summary: "print a line at every change of leadership, until interrupted",
		},
		{
			name: "resign", arguments: "RESOURCE", run: (*program).resign,
			summary: "depose whoever leads RESOURCE, from anywhere; exit 1 when nobody does",
		},
		{
			name: "task", arguments: "FILE", takes: takesFile, run: (*program).runTask,
			summary: "stand for election; as the leader, run the task in FILE from its checkpoint on",
		},
		{
			name: "task show", arguments: "FILE|NAME [-o table|json]", takes: takesTask, output: true,
			run:     task((*tasks.Session).Show),
			summary: "print the checkpoint of a task",
		},
		{
			name: "task list", arguments: "[-o table|json]", takes: takesNothing, output: true,
			run:     task((*tasks.Session).List),
			summary: "print the checkpoints of all tasks",
		},
		{
			name: "task resume", arguments: "FILE|NAME", takes: takesTask, run: task((*tasks.Session).Resume),
			summary: "let a stopped task go on with the step that it stopped at",
		},
		{
			name: "task restart", arguments: "FILE|NAME", takes: takesTask, run: task((*tasks.Session).Restart),
			summary: "begin a new run of a task, from its first step and starting state",
		},
	}
}

// commands are the subcommands in the form of the frame.
func (p *program) commands() (all []cli.Command[*config]) {
	for _, c := range commands() {
		var r request
		all = append(all, cli.Command[*config]{
			Name: c.name, Arguments: c.arguments, Summary: c.summary, More: c.more(), Output: c.output,
			Check: func(a cli.Arguments) (err error) {
				r, err = c.parse(a)
				return err
			},
			Run: func(ctx context.Context, cfg *config, _ cli.Arguments) error {
				return cli.Exit(p.begin(ctx, c, &session{request: r, config: cfg}))
			},
		})
	}
	return all
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

// begin reads the task file, if there is one, before the coordinator is opened.
func (p *program) begin(ctx context.Context, c command, s *session) int {
	if err := p.loadTask(c, s); err != nil {
		fmt.Fprintf(p.Stderr, "leader: %v\n", err)
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
	o := coordinators.Options{SessionTimeout: s.config.SessionTimeout, Logger: s.log}
	coordinator, err := p.electors.Open(ctx, s.config.Coordinator, o)
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
	s.log = logging.New(p.Stderr, s.config.Log)
	if progress {
		if s.tasks.Bar = tasks.NewBar(p.Stderr, p.Env); s.tasks.Bar != nil {
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
