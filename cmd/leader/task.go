package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
)

// taskRef names a task: by its file, or by its name in the journal.
type taskRef struct {
	path string
	name checkpoint.Name
}

// parseTask reads the argument that names a task. An argument that ends in .yaml or .yml, or
// contains a slash, is a file.
func (c command) parseTask(names []string, dashed bool) (t taskRef, err error) {
	isFile := func(s string) bool {
		return strings.Contains(s, "/") || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
	}
	allowed := 1
	if c.takes == takesNothing {
		allowed = 0
	}
	switch {
	case dashed:
		return t, fmt.Errorf("%s takes no command", c.name)
	case len(names) > allowed:
		return t, fmt.Errorf("%q is one argument too many", names[allowed])
	case allowed == 0:
		return t, nil
	case len(names) == 0:
		return t, errors.New(strings.Fields(c.arguments)[0] + " is missing")
	case c.takes == takesFile || isFile(names[0]):
		return taskRef{path: names[0]}, nil
	}
	t.name, err = checkpoint.ParseName(names[0])
	return t, err
}

// runTask is the subcommand task.
func (p *program) runTask(ctx context.Context, inv *invocation) int {
	inv.logSettings(ctx)
	inv.tasks.Leaving = ctx.Done()
	return task((*tasks.Invocation).Run)(p, ctx, inv)
}

// task turns a method of tasks.Invocation into a subcommand.
func task(
	run func(*tasks.Invocation, context.Context) int,
) func(*program, context.Context, *invocation) int {
	return func(_ *program, ctx context.Context, inv *invocation) int {
		inv.tasks.Coordinator, inv.tasks.Log = inv.coordinator, inv.log
		return run(inv.tasks, ctx)
	}
}

// loadTask reads the task file, if one is named.
func (p *program) loadTask(c command, inv *invocation) error {
	if inv.jobs.task != "" {
		return p.handIn(inv)
	}
	if c.takes == takesResource || c.takes == takesGroup || c.takes == takesAddress {
		return nil
	}
	inv.tasks = &tasks.Invocation{Setup: p.setup(inv), Path: inv.task.path, Name: inv.task.name}
	err := inv.tasks.Load(c.takes == takesFile)
	inv.resource = inv.tasks.Resource
	return err
}
