package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
)

func (p *program) taskCommand() *cobra.Command {
	inv := &invocation{tasks: &tasks.Invocation{}}
	c := &cobra.Command{
		Use: "task [flags] FILE", Args: cobra.MatchAll(cobra.ExactArgs(1), inv.ofFile),
		Short: "Stand for election; as the leader, run the task in FILE from its checkpoint",
		Long:  taskHelp,
		RunE: p.doing(inv, action{
			uses: []string{useStores, useCommands, useJournal, useMonitor, useToken},
			load: loadTask(true), run: (*program).runTask,
			lasts: true, ready: standing, monitored: true, progress: true,
		}),
	}
	c.AddCommand(
		p.checkpointsCommand(),
		p.checkpointCommand("show", true, "Print the checkpoint of a task", (*tasks.Invocation).Show),
		p.checkpointCommand("resume", false, "Continue a stopped task with the step at which it stopped",
			(*tasks.Invocation).Resume),
		p.checkpointCommand("restart", false,
			"Begin a new run of a task, from its first step and initial state",
			(*tasks.Invocation).Restart))
	return c
}

// checkpointCommand makes a command about the checkpoint of one task.
func (p *program) checkpointCommand(
	name string, prints bool, short string, run func(*tasks.Invocation, context.Context) int,
) *cobra.Command {
	inv := &invocation{tasks: &tasks.Invocation{}}
	c := &cobra.Command{
		Use:  name + " [flags] FILE|NAME",
		Args: cobra.MatchAll(cobra.ExactArgs(1), inv.ofTask), Short: short, Long: short + taskNameHelp,
		RunE: p.doing(inv, action{
			uses: []string{useStores, useJournal}, load: loadTask(false), run: task(run),
		}),
	}
	if prints {
		cli.Output(c, &inv.output, "table", "json")
	}
	return c
}

// checkpointsCommand makes the command about the checkpoints of all tasks.
func (p *program) checkpointsCommand() *cobra.Command {
	inv := &invocation{tasks: &tasks.Invocation{}}
	c := &cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short: "Print the checkpoints of all tasks in the journal: LEADER_JOURNAL, or its default",
		RunE: p.doing(inv, action{
			uses: []string{useStores, useJournal}, load: loadTask(false),
			run: task((*tasks.Invocation).List),
		}),
	}
	cli.Output(c, &inv.output, "table", "json")
	return c
}

// ofFile reads the argument that names a task's file.
func (inv *invocation) ofFile(_ *cobra.Command, args []string) error {
	inv.tasks.Path = args[0]
	return nil
}

// ofTask reads the argument that names a task: if it ends in .yaml or .yml, or contains a slash, by
// its file, else by its name in the journal.
func (inv *invocation) ofTask(c *cobra.Command, args []string) (err error) {
	name := args[0]
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") ||
		strings.HasSuffix(name, ".yml") {
		return inv.ofFile(c, args)
	}
	inv.tasks.Name, err = checkpoint.ParseName(name)
	return err
}

// runTask implements leader task.
func (p *program) runTask(ctx context.Context, inv *invocation) int {
	inv.logSettings(ctx)
	inv.tasks.Leaving = ctx.Done()
	return task((*tasks.Invocation).Run)(p, ctx, inv)
}

// task turns a method of tasks.Invocation into what a command runs.
func task(
	run func(*tasks.Invocation, context.Context) int,
) func(*program, context.Context, *invocation) int {
	return func(_ *program, ctx context.Context, inv *invocation) int {
		inv.tasks.Coordinator, inv.tasks.Log = inv.coordinator, inv.log
		return run(inv.tasks, ctx)
	}
}

// loadTask reads the task file, if one is named. With toRun its steps have to fit the settings.
func loadTask(toRun bool) func(*program, *invocation) error {
	return func(p *program, inv *invocation) error {
		inv.tasks.Setup = p.setup(inv)
		err := inv.tasks.Load(toRun)
		inv.resource = inv.tasks.Resource
		return err
	}
}
