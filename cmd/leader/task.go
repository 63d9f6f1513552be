package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/environ"
	"github.com/ringfence/ringfence/internal/taskfile"
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

// readTask reads the task file, if one is named. One that is to be run has to fit the settings.
func (p *program) readTask(c command, s *session) error {
	if s.task.path == "" {
		return nil
	}
	f, err := taskfile.Load(s.task.path, func(name string) (string, bool) { return environ.Lookup(p.env, name), true })
	if err != nil {
		return err
	}
	s.file, s.task.name, s.resource = f, f.Task, f.Resource
	if err := p.unknownJournal(s); err != nil || c.takes != takesFile {
		return err
	}
	return s.fits()
}

// fits says whether the steps of the file can be run with these settings.
func (s *session) fits() error {
	var problems []error
	u, from := s.journalURL()
	for _, step := range s.file.Steps {
		if step.SQL != nil && !strings.HasPrefix(u.Scheme(), "postgres") {
			problems = append(problems, fmt.Errorf("%s: step %q is SQL, which needs a journal in Postgres, and %s is %s: set LEADER_JOURNAL=postgres://…", step.At, step.Name, from, u))
		}
		if len(step.Redis) > 0 && s.redisURL() == "" {
			problems = append(problems, fmt.Errorf("%s: step %q is run by Redis: set LEADER_REDIS=redis://…", step.At, step.Name))
		}
	}
	return errors.Join(problems...)
}
