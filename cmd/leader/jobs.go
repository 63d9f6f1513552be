package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/cmd/leader/internal/work"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/jobs"
)

// jobsRequest holds the arguments of work, submit and jobs.
type jobsRequest struct {
	group string
	verb  string // of jobs; "" lists
	id    jobs.ID
	work  work.Work
	wait  bool
	spec  jobs.Spec
	stdin string
	env   []string
	task  string // a task file, in place of a command

	selected jobs.Selection // of those that are listed
	offered  []string       // groups, by the page of serve
}

func (r *request) workFlags(f *flag.FlagSet) {
	r.jobs = jobsRequest{}
	w := &r.jobs.work
	f.IntVar(&w.Capacity, "capacity", 4, "run at most `N` jobs at once (default 4)")
	f.StringVar(&w.Strategy, "strategy", "least-loaded",
		"`S`: how it chooses among workers while it assigns: least-loaded (default), round-robin or "+
			"random")
	f.Func("label", "`L,…`: labels that this worker has; a job that names labels goes to workers "+
		"that have them", labels(&w.Labels))
}

func (r *request) submitFlags(f *flag.FlagSet) {
	r.jobs = jobsRequest{}
	s := &r.jobs.spec
	f.BoolVar(&r.jobs.wait, "wait", false,
		"wait for the end; print the command's output, and exit with its code. The job goes on if this "+
			"is interrupted")
	f.StringVar((*string)(&s.Resource), "resource", "", "the job leads `R` while it runs (default: "+
		"a resource of its own)")
	f.StringVar(&s.Unique, "unique", "",
		"if an unfinished job of the group has this `KEY`, print its ID and hand in nothing")
	f.Func("at", "`TIME`: not before 2026-12-24T18:00:00Z, or a duration from now such as 10m",
		func(text string) (err error) {
			s.NotBefore, err = parseTime(text)
			return err
		})
	f.StringVar(&s.Every, "every", "", "`SPEC`: start again; 15m, or as crontab(5) has it: '0 3 * * "+
		"*', in UTC, or 'CRON_TZ=Europe/Berlin 0 3 * * *'")
	f.IntVar(&s.Priority, "priority", 0, "`N`: 0 to 9; a higher one is assigned first")
	f.IntVar(&s.Retries, "retries", 0, "try it again up to `N` times after a failure")
	f.TextVar(&s.Backoff, "backoff", jobs.Duration(0),
		"pause for `D` before the first retry, twice as long each time, up to 1h (default 1s)")
	f.TextVar(&s.Timeout, "timeout", jobs.Duration(0), "end a try after `D`")
	f.TextVar(&s.Keep, "keep", jobs.Duration(0), "keep the status for `D` after the end (default "+
		"24h if it is done, else 168h)")
	f.StringVar(&s.Title, "title", "", "`TEXT` by which people know the job (default: its command, "+
		"or the name of its task)")
	f.Func("label", "`L,…`: labels that its worker must have", labels(&s.Labels))
	f.StringVar(&r.jobs.task, "task", "",
		"run the task in `FILE` (leader task -h) in place of a command")
	f.StringVar(&r.jobs.stdin, "stdin", "", "`JSON`: what the command reads")
	f.Func("env", "`NAME=value`: more environment; may be repeated", func(entry string) error {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
			return errors.New("it has the form NAME=value")
		}
		r.jobs.env = append(r.jobs.env, entry)
		return nil
	})
}

func (r *request) jobsFlags(f *flag.FlagSet) {
	r.jobs = jobsRequest{}
	s := &r.jobs.selected
	f.Func("state", "`S`: only jobs in this state: waiting, assigned, running, done, failed or "+
		"cancelled", func(text string) (err error) {
		s.State, err = jobs.ParseState(text)
		return err
	})
	f.StringVar(&s.Kind, "kind", "", "`K`: only jobs of this kind: command, task or one of your own")
	f.StringVar(&s.Text, "text", "", "only jobs with `TEXT` in the command, ID, resource, labels, "+
		"unique key, worker or error")
}

func labels(into *[]string) func(string) error {
	return func(text string) error {
		all := strings.Split(text, ",")
		*into = append(*into, all...)
		if slices.Contains(all, "") {
			return errors.New("one of the labels is empty")
		}
		return nil
	}
}

// parseTime reads a time, such as 2026-12-24T18:00:00Z, or how long from now it is, such as 10m.
func parseTime(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, errors.New("it is a time such as 2026-12-24T18:00:00Z, or a duration from now such " +
			"as 10m")
	}
	return t, nil
}

// verbs are what jobs does with one job.
var verbs = map[string]func(*work.Invocation, context.Context, jobs.ID) int{
	"show": (*work.Invocation).Show, "logs": (*work.Invocation).Logs,
	"cancel": (*work.Invocation).Cancel, "retry": (*work.Invocation).Retry,
	"run":   (*work.Invocation).RunNow,
	"pause": (*work.Invocation).Pause, "resume": (*work.Invocation).Resume,
}

// parseGroup reads the arguments of work, submit and jobs.
func (c command) parseGroup(names []string, dashed bool, r *request) error {
	most := 1
	if c.name == "jobs" {
		most = 3
	}
	switch {
	case len(names) == 0:
		return errors.New("GROUP is missing")
	case len(names) > 1 && c.name == "submit" && !dashed:
		return fmt.Errorf("put -- before the command: leader submit %s -- %s", names[0], names[1])
	case len(names) > most:
		return fmt.Errorf("%q is one argument too many", names[most])
	case dashed && c.name != "submit":
		return fmt.Errorf("%s takes no command", c.name)
	}
	r.jobs.group = names[0]
	if _, err := group.New(nil, names[0]); err != nil {
		return err
	}
	switch c.name {
	case "submit":
		return r.parseCommand()
	case "work":
		_, err := jobs.NewStrategy(r.jobs.work.Strategy)
		if err == nil && r.jobs.work.Capacity < 1 {
			err = fmt.Errorf("--capacity is %d: at least 1", r.jobs.work.Capacity)
		}
		return err
	}
	return r.parseVerb(names[1:])
}

func (r *request) parseVerb(names []string) (err error) {
	switch {
	case len(names) == 0:
		return nil
	case names[0] == "workers" && len(names) == 1:
		r.jobs.verb = names[0]
		return nil
	case names[0] == "workers":
		return fmt.Errorf("%q is one argument too many", names[1])
	case verbs[names[0]] == nil:
		return fmt.Errorf("%q is none of workers, show, logs, cancel, retry, run, pause and resume",
			names[0])
	case len(names) == 1:
		return fmt.Errorf("the ID of the job is missing: leader jobs %s %s ID", r.jobs.group, names[0])
	}
	r.jobs.verb = names[0]
	if r.jobs.id, err = jobs.ParseID(names[1]); err != nil {
		err = fmt.Errorf("%w: leader submit prints it, and leader jobs %s lists all", err, r.jobs.group)
	}
	return err
}

// parseCommand makes the job of submit.
func (r *request) parseCommand() error {
	switch {
	case r.jobs.task != "" && (len(r.command) > 0 || r.jobs.stdin != "" || r.jobs.env != nil):
		return errors.New("--task takes no command, --stdin or --env")
	case r.jobs.task != "":
		return nil // loadTask reads it
	case len(r.command) == 0:
		return errors.New("the command is missing: leader submit GROUP -- COMMAND, or --task FILE")
	case r.command[0] == "":
		return errors.New("the command is empty: the first word after -- names a program")
	}
	c := work.Command{Argv: slices.Clone(r.command), Env: r.jobs.env}
	if r.jobs.stdin != "" {
		if !json.Valid([]byte(r.jobs.stdin)) {
			return errors.New("--stdin is not JSON")
		}
		c.Stdin = json.RawMessage(r.jobs.stdin)
	}
	payload, err := json.Marshal(c)
	r.jobs.spec.Kind, r.jobs.spec.Payload = work.CommandKind, payload
	if err != nil {
		return err
	}
	return r.jobs.spec.Check()
}

// setup is what the subcommands about tasks and jobs have.
func (p *program) setup(inv *invocation) tasks.Setup {
	return tasks.Setup{
		Settings: inv.config.tasks(), Output: inv.output, Env: p.Env, Stdout: p.Stdout, Stderr: p.Stderr,
		Stores: p.stores, Journals: p.journals, Coordinator: inv.coordinator, Log: inv.log,
	}
}

func (p *program) invoke(inv *invocation) *work.Invocation {
	return &work.Invocation{Setup: p.setup(inv), Group: inv.jobs.group}
}

// handIn reads the task file of submit.
func (p *program) handIn(inv *invocation) error {
	b, f, err := taskfile.Collect(inv.jobs.task, func(name string) (string, bool) {
		return settings.Lookup(p.Env, name), true
	})
	if err == nil {
		inv.jobs.spec, err = work.TaskSpec(inv.jobs.spec, b, f)
	}
	return err
}

// runWork implements the subcommand work.
func runWork(p *program, ctx context.Context, inv *invocation) int {
	inv.logSettings(ctx)
	inv.jobs.work.Hurry = inv.signals.Again()
	working := p.invoke(inv)
	working.Watch, working.Leaving = inv.watchWorker, ctx.Done()
	return working.Work(ctx, inv.jobs.work)
}

func submit(p *program, ctx context.Context, inv *invocation) int {
	v := p.invoke(inv)
	code := v.Submit(ctx, inv.jobs.spec, inv.jobs.wait)
	inv.passed = v.Passed
	return code
}

func showJobs(p *program, ctx context.Context, inv *invocation) int {
	switch inv.jobs.verb {
	case "":
		return p.invoke(inv).List(ctx, inv.jobs.selected)
	case "workers":
		return p.invoke(inv).Workers(ctx)
	}
	return verbs[inv.jobs.verb](p.invoke(inv), ctx, inv.jobs.id)
}
