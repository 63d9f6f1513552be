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
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/environ"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/stores"
	"github.com/ringfence/ringfence/internal/supervise"
	"github.com/ringfence/ringfence/internal/taskfile"
)

// Settings is what leader's settings say that tasks need.
type Settings struct {
	Coordinator    settings.URL
	Stores         settings.URLs
	Journal        settings.URL // "" for the file's, or the default
	Redis          settings.URL // "" for the first redis:// of Stores
	SessionTimeout time.Duration
	RaiseTimeout   time.Duration
	OnDisconnect   supervise.Policy
	Grace          time.Duration // of commands, between TERM and KILL
	Margin         time.Duration // of commands, between KILL and the deadline of the term
	Holder         string
}

// scrub takes the secrets of all URLs out of a text.
func (c *Settings) scrub(text string) string {
	for _, u := range append(settings.URLs{c.Coordinator, c.Journal, c.Redis}, c.Stores...) {
		text = u.Scrub(text)
	}
	return text
}

// first is the first store of one of the schemes.
func (c *Settings) first(schemes ...string) settings.URL {
	for _, u := range c.Stores {
		if slices.Contains(schemes, u.Scheme()) {
			return u
		}
	}
	return ""
}

// Invocation is one call of a subcommand that is about tasks. Load comes first; everything else needs
// Coordinator and Log, too, and reports its errors there.
type Invocation struct {
	Settings Settings
	Path     string          // of the task file; "" where none was named
	Name     checkpoint.Name // of the task; Load finds it in the file
	Output   string          // table or json
	Env      []string
	Stdout   io.Writer
	Stderr   io.Writer
	Stores   stores.Table
	Journals Journals

	Coordinator fence.Coordinator
	Log         *slog.Logger
	Bar         *Bar // nil where nobody would see it

	Resource fence.Resource // Load finds it in the file
	File     *taskfile.File // what Load has read; nil where no file was named
}

// Load reads the task file, if one is named. One that is to be run has to fit the settings.
func (inv *Invocation) Load(toRun bool) error {
	if inv.Path == "" {
		return nil
	}
	f, err := taskfile.Load(inv.Path, func(name string) (string, bool) { return environ.Lookup(inv.Env, name), true })
	if err != nil {
		return err
	}
	inv.File, inv.Name, inv.Resource = f, f.Task, f.Resource
	if err := inv.unknownJournal(); err != nil || !toRun {
		return err
	}
	return inv.fits()
}

// raisers are the stores of the settings.
func (inv *Invocation) raisers() []fence.Raiser {
	return inv.Stores.Raisers(inv.Settings.Stores, inv.Coordinator, inv.Settings.RaiseTimeout)
}

// fits says whether the steps of the file can be run with these settings.
func (inv *Invocation) fits() error {
	var problems []error
	u, from := inv.journalURL()
	for _, step := range inv.File.Steps {
		if step.SQL != nil && !strings.HasPrefix(u.Scheme(), "postgres") {
			problems = append(problems, fmt.Errorf("%s: step %q is SQL, which needs a journal in Postgres, and %s is %s: set LEADER_JOURNAL=postgres://…", step.At, step.Name, from, u))
		}
		if len(step.Redis) > 0 && inv.redisURL() == "" {
			problems = append(problems, fmt.Errorf("%s: step %q is run by Redis: set LEADER_REDIS=redis://…", step.At, step.Name))
		}
	}
	return errors.Join(problems...)
}
