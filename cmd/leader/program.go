package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/cmd/internal/metrics"
	"github.com/ringfence/ringfence/cmd/internal/systemd"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// program is leader with its dependencies, which tests replace.
type program struct {
	cli.Streams

	electors coordinators.Table
	stores   stores.Table
	journals tasks.Journals
	notify   func() (signals <-chan os.Signal, stop func())

	managed []string // the environment with what the service manager says in it
}

func (p *program) run(ctx context.Context, args []string) int {
	p.managed, p.Env = p.Env, systemd.Without(p.Env) // commands must not speak for this process
	cmd := cli.Program[*config]{
		Streams: p.Streams, Name: "leader", Commands: p.commands(), Load: p.settings, SetsApart: true,
		Help: cli.Help{
			About: "leader runs a command or a task as the leader of a resource, and shows the state " +
				"of elections.",
			Settings: &config{}, ExitCodes: exitCodes,
		},
	}
	return cmd.Main(ctx, args)
}

// command is one of leader's subcommands.
type command struct {
	name      string
	arguments string
	summary   string
	help      string // what -h prints after it
	takes     operand
	lasts     bool                          // a service manager may run it
	passes    bool                          // passes on the exit code of a command
	output    bool                          // takes -o
	flags     func(*request, *flag.FlagSet) // declares further flags; nil for none
	run       func(p *program, ctx context.Context, inv *invocation) int
}

// status is what run, task and work do from the beginning, for people.
func (c command) status(inv *invocation) string {
	if c.name == "run" || c.name == "task" {
		return standing(inv.resource)
	}
	return "Working for " + inv.jobs.group
}

func standing(r fence.Resource) string { return fmt.Sprintf("Standing for election: %s", r) }

// operand is the kind of argument that a subcommand takes.
type operand int

const (
	takesResource operand = iota
	takesFile
	takesTask // a file, or the name of a task
	takesNothing
	takesGroup
	takesAddress
	takesAgent
)

func commands() []command {
	return []command{
		{
			name: "run", arguments: "[--again] RESOURCE -- COMMAND [ARGUMENT...]",
			run: (*program).runCommand, flags: (*request).againFlag, lasts: true, passes: true,
			help:    runHelp,
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
			summary: "depose the leader of RESOURCE, from any machine; exit 1 when there is none",
		},
		{
			name: "task", arguments: "FILE", takes: takesFile, run: (*program).runTask, lasts: true,
			help:    taskHelp,
			summary: "stand for election; as the leader, run the task in FILE from its checkpoint",
		},
		{
			name: "task show", arguments: "FILE|NAME [-o table|json]", takes: takesTask, output: true,
			run:     task((*tasks.Invocation).Show),
			help:    taskNameHelp,
			summary: "print the checkpoint of a task",
		},
		{
			name: "task list", arguments: "[-o table|json]", takes: takesNothing, output: true,
			run:     task((*tasks.Invocation).List),
			help:    taskNameHelp,
			summary: "print the checkpoints of all tasks",
		},
		{
			name: "task resume", arguments: "FILE|NAME", takes: takesTask,
			run:     task((*tasks.Invocation).Resume),
			help:    taskNameHelp,
			summary: "continue a stopped task with the step at which it stopped",
		},
		{
			name: "task restart", arguments: "FILE|NAME", takes: takesTask,
			run:     task((*tasks.Invocation).Restart),
			help:    taskNameHelp,
			summary: "begin a new run of a task, from its first step and initial state",
		},
		{
			name: "work", arguments: "[--capacity N] [--label L,...] [--strategy S] GROUP",
			takes: takesGroup, flags: (*request).workFlags, run: runWork, lasts: true,
			help:    workHelp,
			summary: "run jobs of GROUP, until interrupted; one of its workers assigns them",
		},
		{
			name: "submit", arguments: "[--wait] [--resource R] [--unique KEY] [--at TIME] " +
				"[--every SPEC] [...] GROUP -- COMMAND [ARGUMENT...] | --task FILE",
			takes: takesGroup, output: true, flags: (*request).submitFlags, run: submit, passes: true,
			help:    submitHelp,
			summary: "hand in a job that runs COMMAND, or the task in FILE; print its ID",
		},
		{
			name: "jobs", arguments: "GROUP [--state S] [--kind K] [--text TEXT] " +
				"[workers | show|logs|cancel|retry|run|pause|resume ID] [-o table|json]",
			takes: takesGroup, output: true, flags: (*request).jobsFlags, run: showJobs,
			help: jobsHelp,
			summary: "print the jobs of GROUP, its workers, or one job; cancel one, try it again, run it " +
				"now, pause it",
		},
		{
			name: "serve", arguments: "[--listen ADDRESS] [GROUP...]", takes: takesAddress,
			flags: (*request).serveFlags, run: serve, lasts: true,
			help:    serveHelp,
			summary: "serve the HTTP API of jobs, and a page that shows them, until interrupted",
		},
		{
			name: "agent", arguments: "[--listen ADDRESS]", takes: takesAgent,
			flags: (*request).agentFlags, run: runAgent, lasts: true,
			help:    agentHelp,
			summary: "hold terms for programs of this machine, which ask by HTTP, until interrupted",
		},
	}
}

// commands returns the subcommands in package cli's form.
func (p *program) commands() (all []cli.Command[*config]) {
	for _, c := range commands() {
		var r request // filled by the flags and Check, used by Run
		all = append(all, cli.Command[*config]{
			Name: c.name, Arguments: c.arguments, Summary: c.summary, More: c.help, Output: c.output,
			Passes: c.passes,
			Flags: func(f *flag.FlagSet) {
				if c.flags != nil {
					c.flags(&r, f)
				}
			},
			Check: func(a cli.Arguments) error { return c.parse(a, &r) },
			Run: func(ctx context.Context, cfg *config, _ cli.Arguments) error {
				inv := &invocation{request: r, config: cfg}
				code := p.begin(ctx, c, inv)
				if inv.passed {
					return cli.Passed(code)
				}
				return cli.Exit(code)
			},
		})
	}
	return all
}

// invocation is one call of a subcommand.
type invocation struct {
	request
	config      *config
	tasks       *tasks.Invocation // nil unless the subcommand is about tasks
	coordinator documents.Coordinator
	metrics     *metrics.Metrics // nil without LEADER_HTTP_LISTEN
	signals     *supervise.Signals
	unit        *unit // nil unless the subcommand lasts
	passed      bool  // the exit code is that of a command
	log         *slog.Logger
	dropped     func() float64 // counts the lines of the log that were dropped
}

// begin reads the task file, if there is one, before the coordinator is opened.
func (p *program) begin(ctx context.Context, c command, inv *invocation) int {
	if err := p.loadTask(c, inv); err != nil {
		fmt.Fprintf(p.Stderr, "leader: %v\n", err)
		return cli.Usage
	}
	return p.open(ctx, c, inv)
}

// open opens the log and the coordinator, and runs the subcommand.
func (p *program) open(ctx context.Context, c command, inv *invocation) int {
	p.logTo(inv, c.takes == takesFile)
	stores.LogTo(inv.log)
	ctx, signals, stop := supervise.Listen(ctx, p.notify)
	defer stop()
	if out, ok := p.Stdout.(*logging.Output); ok {
		out.Until(ctx)
	}
	inv.signals = signals
	if c.lasts {
		inv.unit = p.openUnit(ctx, inv.log)
		defer inv.unit.close()
		if c.takes != takesAddress && c.takes != takesAgent { // those are ready once they listen
			inv.unit.manager.Ready(c.status(inv))
		}
	}
	o := coordinators.Options{SessionTimeout: inv.config.SessionTimeout, Logger: inv.log}
	coordinator, err := p.electors.Open(ctx, inv.config.Coordinator, o)
	if err != nil {
		return cli.Failed(ctx, inv.log, "open the coordinator", err)
	}
	inv.coordinator = coordinator
	defer func() {
		if err := coordinator.Close(); err != nil {
			inv.log.Warn("closing the coordinator failed", "cause", err)
		}
	}()
	stopMonitor, err := inv.monitor(ctx, c)
	if err != nil {
		return cli.Failed(ctx, inv.log, "serve metrics", err)
	}
	defer stopMonitor()
	return c.run(p, ctx, inv)
}

// logTo opens the log. While a task runs on a terminal, log lines are written above its progress
// bar.
func (p *program) logTo(inv *invocation, progress bool) {
	inv.log, inv.dropped = logging.New(p.Stderr, inv.config.Log), logging.Dropped(p.Stderr)
	if progress {
		if inv.tasks.Bar = tasks.NewBar(p.Stderr, p.Env); inv.tasks.Bar != nil {
			inv.log = slog.New(slog.NewTextHandler(inv.tasks.Bar,
				&slog.HandlerOptions{Level: inv.config.Log}))
		}
	}
	if inv.resource != "" {
		inv.log = inv.log.With("resource", string(inv.resource))
	}
	if inv.tasks != nil && inv.tasks.Name != "" {
		inv.log = inv.log.With("task", string(inv.tasks.Name))
	}
}
