package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

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
	cmd := cli.Program{
		Streams: p.Streams, Root: p.rootCommand(), Settings: &config{}, ExitCodes: exitCodes,
	}
	return cmd.Main(ctx, args)
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "leader", Short: "Run a command or a task as the leader of a resource",
		Long: `leader runs a command or a task as the leader of a resource, and shows the state of elections.
`,
	}
	root.AddCommand(p.runCommand(), p.statusCommand(), p.watchCommand(), p.resignCommand(),
		p.taskCommand(), p.workCommand(), p.submitCommand(), p.jobsCommand(), p.serveCommand(),
		p.agentCommand())
	return root
}

// action is what a command does, with what it needs for that.
type action struct {
	uses []string                                // of the settings
	load func(p *program, inv *invocation) error // reads a task file; nil: none
	run  func(p *program, ctx context.Context, inv *invocation) int

	lasts     bool                         // a service manager may run it
	ready     func(inv *invocation) string // what it then does from the beginning; nil: run says it
	monitored bool                         // it has metrics and readiness at LEADER_HTTP_LISTEN
	progress  bool                         // it has a progress bar
}

// doing returns what runs a command. Its flags and arguments have filled the invocation.
func (p *program) doing(inv *invocation, a action) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) (err error) {
		if inv.config, err = p.settings(a.uses...); err != nil {
			return err
		}
		if a.load != nil {
			if err := a.load(p, inv); err != nil {
				fmt.Fprintf(p.Stderr, "leader: %v\n", err)
				return cli.Exit(cli.Usage)
			}
		}
		code := p.open(c.Context(), a, inv)
		if inv.passed {
			return cli.Passed(code)
		}
		return cli.Exit(code)
	}
}

// invocation is one call of a command.
type invocation struct {
	resource fence.Resource
	output   string   // table or json
	command  []string // to run as the leader
	again    bool     // stand for election again after a lost term
	jobs     jobsRequest
	listen   string // of serve and agent

	config      *config
	tasks       *tasks.Invocation // nil unless the command is about tasks
	coordinator documents.Coordinator
	metrics     *metrics.Metrics // nil without LEADER_HTTP_LISTEN
	signals     *supervise.Signals
	unit        *unit // nil unless the command lasts
	passed      bool  // the exit code is that of a command
	log         *slog.Logger
	dropped     func() float64 // counts the lines of the log that were dropped
}

// open opens the log and the coordinator, and runs the command.
func (p *program) open(ctx context.Context, a action, inv *invocation) int {
	p.logTo(inv, a.progress)
	stores.LogTo(inv.log)
	ctx, signals, stop := supervise.Listen(ctx, p.notify)
	defer stop()
	if out, ok := p.Stdout.(*logging.Output); ok {
		out.Until(ctx)
	}
	inv.signals = signals
	if a.lasts {
		inv.unit = p.openUnit(ctx, inv.log)
		defer inv.unit.close()
		if a.ready != nil {
			inv.unit.manager.Ready(a.ready(inv))
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
	if a.monitored {
		stopMonitor, err := inv.monitor(ctx)
		if err != nil {
			return cli.Failed(ctx, inv.log, "serve metrics", err)
		}
		defer stopMonitor()
	}
	return a.run(p, ctx, inv)
}

// standing is what a candidate does, for the service manager.
func standing(inv *invocation) string {
	return fmt.Sprintf("Standing for election: %s", inv.resource)
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
