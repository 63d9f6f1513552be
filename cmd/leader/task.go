package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/tasks"
)

// target is the task that a subcommand is about: a file, or a name in the journal.
type target struct {
	path string
	name checkpoint.Name
}

// parseTask reads what stands in RESOURCE's place. What ends in .yaml or .yml, or has a slash, is a file.
func (c command) parseTask(names []string, dashed bool) (t target, err error) {
	isFile := func(s string) bool {
		return strings.Contains(s, "/") || strings.HasSuffix(s, ".yaml") || strings.HasSuffix(s, ".yml")
	}
	most := 1
	if c.takes == takesNothing {
		most = 0
	}
	switch {
	case dashed:
		return t, fmt.Errorf("%s takes no command", c.name)
	case len(names) > most:
		return t, fmt.Errorf("%q is one argument too many", names[most])
	case most == 0:
		return t, nil
	case len(names) == 0:
		return t, errors.New(strings.Fields(c.arguments)[0] + " is missing")
	case c.takes == takesFile || isFile(names[0]):
		return target{path: names[0]}, nil
	}
	t.name, err = checkpoint.ParseName(names[0])
	return t, err
}

// runTask is the subcommand task.
func (p *program) runTask(ctx context.Context, s *session) int {
	s.introduce(ctx)
	return task((*tasks.Session).Run)(p, ctx, s)
}

// task makes a subcommand of what a session of tasks does.
func task(run func(*tasks.Session, context.Context) int) func(*program, context.Context, *session) int {
	return func(_ *program, ctx context.Context, s *session) int {
		s.tasks.Coordinator, s.tasks.Log = s.coordinator, s.log
		return run(s.tasks, ctx)
	}
}

// loadTask reads the task file, if one is named.
func (p *program) loadTask(c command, s *session) error {
	if c.takes == takesResource {
		return nil
	}
	s.tasks = &tasks.Session{
		Settings: s.config.tasks(), Path: s.target.path, Name: s.target.name, Output: s.output,
		Env: p.Env, Stdout: p.Stdout, Stderr: p.Stderr, Stores: p.stores, Journals: p.journals,
	}
	err := s.tasks.Load(c.takes == takesFile)
	s.resource = s.tasks.Resource
	return err
}
