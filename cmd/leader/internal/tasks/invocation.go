package tasks

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/settings"
)

// Settings are those of leader's settings that tasks need.
type Settings struct {
	Coordinator    settings.URL
	Stores         settings.URLs
	Journal        taskfile.Journal // empty for the one in the file, or the default
	Redis          settings.URL     // "" for the first redis:// of Stores
	SessionTimeout time.Duration
	RaiseTimeout   time.Duration
	OnDisconnect   supervise.Policy
	Grace          time.Duration // between TERM and KILL of a command
	Margin         time.Duration // between KILL of a command and the deadline of the term
	DrainTimeout   time.Duration // how long commands of jobs may go on when a worker is told to stop
	Holder         string
	Claims         environ.Claims // what commands get of the claim
}

// scrub removes the secrets of all URLs from a text.
func (c *Settings) scrub(text string) string {
	for _, u := range append(settings.URLs{c.Coordinator, c.Journal.URL, c.Redis}, c.Stores...) {
		text = u.Scrub(text)
	}
	return text
}

// first returns the first store that has one of the schemes, or "".
func (c *Settings) first(schemes ...string) settings.URL {
	for _, u := range c.Stores {
		if slices.Contains(schemes, u.Scheme()) {
			return u
		}
	}
	return ""
}

// Setup is what every call of a subcommand has.
type Setup struct {
	Settings    Settings
	Output      string // table or json
	Env         []string
	Stdout      io.Writer
	Stderr      io.Writer
	Stores      stores.Table
	Journals    Journals
	Coordinator documents.Coordinator
	Leaving     <-chan struct{} // closed when leader has to stop
	Log         *slog.Logger
}

// Supervisor returns the supervisor of a command that was started under a term. Notes for people,
// beside the log, go to the command's stderr.
func (s *Setup) Supervisor(
	child *supervise.Child, t *fence.Term, log *slog.Logger, stderr io.Writer,
) *supervise.Supervisor {
	c := s.Settings
	return &supervise.Supervisor{
		Child: child, Term: t, Log: log, Policy: c.OnDisconnect, Grace: c.Grace, Margin: c.Margin,
		Leaving: s.Leaving, Notes: stderr,
	}
}

// Raisers returns the stores of the settings. Close them at the end.
func (s *Setup) Raisers() []fence.Raiser {
	return s.Stores.Raisers(s.Settings.Stores, s.Coordinator, s.Settings.RaiseTimeout)
}

// OfJob reads the task of a job on the machine that runs it. env is the environment of its steps.
func (s Setup) OfJob(b taskfile.Bundle, env []string) (*Invocation, error) {
	s.Env = env
	inv := &Invocation{Setup: s, Path: b.Path, Bundle: &b}
	return inv, inv.Load(true)
}

// Invocation is one call of a subcommand about tasks. Call Load first. The other methods also need
// Coordinator and Log, and log their errors.
type Invocation struct {
	Setup
	Path   string           // of the task file; "" if none was named
	Bundle *taskfile.Bundle // the task file, if it was handed in with a job
	Name   checkpoint.Name  // of the task; Load takes it from the file
	Bar    *Bar             // nil if stderr is not a terminal

	Resource fence.Resource // Load takes it from the file
	File     *taskfile.File // the result of Load; nil if no file was named

	opened []fence.Raiser
}

// Load reads the task file, if one is named. With toRun it checks that the file fits the settings.
func (inv *Invocation) Load(toRun bool) error {
	if inv.Path == "" && inv.Bundle == nil {
		return nil
	}
	f, err := inv.read()
	if err != nil {
		return err
	}
	inv.File, inv.Name, inv.Resource = f, f.Task, f.Resource
	if err := inv.unknownJournal(); err != nil || !toRun {
		return err
	}
	return inv.checkSteps()
}

func (inv *Invocation) read() (*taskfile.File, error) {
	lookup := func(name string) (string, bool) { return settings.Lookup(inv.Env, name), true }
	if inv.Bundle != nil {
		return inv.Bundle.File(lookup)
	}
	return taskfile.Load(inv.Path, lookup)
}

// raisers returns the stores of the settings. closeStores closes them.
func (inv *Invocation) raisers() []fence.Raiser {
	all := inv.Raisers()
	inv.opened = append(inv.opened, all...)
	return all
}

func (inv *Invocation) closeStores() { stores.Close(inv.opened) }

// checkSteps reports the steps of the file that cannot run with these settings.
func (inv *Invocation) checkSteps() error {
	var problems []error
	u, from := inv.journalAt()
	for _, step := range inv.File.Steps {
		if step.SQL != nil && !strings.HasPrefix(u.Scheme(), "postgres") {
			problems = append(problems, fmt.Errorf("%s: step %q is SQL, which needs a journal in Postgres, "+
				"and %s is %s: set LEADER_JOURNAL=postgres://…", step.At, step.Name, from, u))
		}
		if len(step.Redis) > 0 && inv.redisURL() == "" {
			problems = append(problems, fmt.Errorf("%s: step %q is run by Redis: set LEADER_REDIS=redis://…",
				step.At, step.Name))
		}
	}
	return errors.Join(problems...)
}
