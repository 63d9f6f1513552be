package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/cmd/leader/internal/work"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// jobsRequest holds the arguments of work, submit and jobs.
type jobsRequest struct {
	group string
	verb  string // of jobs; "" lists
	id    job.ID
	work  work.Work
	wait  bool
	spec  job.Spec
	stdin string
	env   []string
	other map[string]*string // by kind: what its flag says, in place of a command

	selected queueview.Selection // of those that are listed
	offered  []string            // groups, by the page of serve
}

func (p *program) workCommand() *cobra.Command {
	inv := &invocation{}
	w := &inv.jobs.work
	c := &cobra.Command{
		Use: "work [flags] GROUP", Args: cobra.MatchAll(cobra.ExactArgs(1), inv.ofGroup, inv.ofCapacity),
		Short: "Run jobs of GROUP, until interrupted; one of its workers assigns them",
		Long:  workHelp, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.doing(inv, action{
			uses: []string{useStores, useCommands, useJournal, useWork, useMonitor, useToken},
			run:  runWork, lasts: true, monitored: true,
			ready: func(inv *invocation) string { return "Working for " + inv.jobs.group },
		}),
	}
	c.Flags().IntVar(&w.Capacity, "capacity", 4, "run at most `N` jobs at once")
	cli.Choice(c, &w.Strategy, "strategy", "", "how it chooses among workers while it assigns: ",
		"least-loaded", "round-robin", "random")
	c.Flags().Func("label", "`LABELS` that this worker has, separated by commas; a job "+
		"that names labels goes to workers that have them", labels(&w.Labels))
	return c
}

func (p *program) submitCommand() *cobra.Command {
	inv := &invocation{}
	short := "Hand in a job that runs COMMAND" + each(", or %[2]s", runs) + "; print its ID"
	c := &cobra.Command{
		Use:         "submit [flags] GROUP (-- COMMAND [ARGUMENT…]" + each(" | --%s %s", value) + ")",
		Annotations: cli.Passes, Args: cobra.MatchAll(inv.forCommand, inv.ofGroup, inv.ofJob),
		Short: short, Long: short + ".\n" + submitHelp + each("\n%[2]s", paragraph),
		RunE: p.doing(inv, action{load: (*program).handIn, run: submit}),
	}
	cli.Output(c, &inv.output, "table", "json")
	inv.jobs.flags(c.Flags())
	return c
}

// each formats a word of every kind of job that submit takes by a flag; %[1]s is the kind.
func each(format string, word func(*work.Submission) string) (text string) {
	for _, kind := range work.Kinds() {
		if s := work.SubmissionOf(kind); s != nil {
			text += fmt.Sprintf(format, kind, word(s))
		}
	}
	return text
}

func value(s *work.Submission) string     { return s.Value }
func runs(s *work.Submission) string      { return s.Runs }
func title(s *work.Submission) string     { return s.Title }
func paragraph(s *work.Submission) string { return s.Help }

func (r *jobsRequest) flags(f *pflag.FlagSet) {
	s := &r.spec
	duration := func(into *job.Duration, name, usage string) {
		f.Func(name, usage, func(text string) error { return into.UnmarshalText([]byte(text)) })
	}
	f.BoolVar(&r.wait, "wait", false, "wait for the end; print the command's output, and exit with "+
		"its code. The job goes on if this is interrupted")
	f.StringVar((*string)(&s.Resource), "resource", "", "the job leads `RESOURCE` while it runs "+
		"(default: a resource of its own)")
	f.StringVar(&s.Unique, "unique", "", "if an unfinished job of the group has this `KEY`, print "+
		"its ID and hand in nothing")
	f.Func("at", "not before `TIME`, such as 2026-12-24T18:00:00Z, or a duration from now such as 10m",
		func(text string) (err error) {
			s.NotBefore, err = parseTime(text)
			return err
		})
	f.StringVar(&s.Every, "every", "", "start again as `SPEC` says: 15m, or as crontab(5) has it: "+
		"'0 3 * * *', in UTC, or 'CRON_TZ=Europe/Berlin 0 3 * * *'")
	f.IntVar(&s.Priority, "priority", 0, "a number `N` from 0 to 9; a higher one is assigned first")
	f.IntVar(&s.Retries, "retries", 0, "try it again up to `N` times after a failure")
	duration(&s.Backoff, "backoff", "pause for `TIME` before the first retry, twice as long each "+
		"time, up to 1h (default 1s)")
	duration(&s.Timeout, "timeout", "end a try after `TIME`")
	duration(&s.Keep, "keep", "keep the status for `TIME` after the end (default 24h if it is done, "+
		"else 168h)")
	f.StringVar(&s.Title, "title", "", "the `TEXT` by which people know the job (default: its "+
		"command"+each(", or %[2]s", title)+")")
	f.Func("label", "`LABELS` that its worker must have, separated by commas", labels(&s.Labels))
	r.other = map[string]*string{}
	for _, kind := range work.Kinds() {
		if s := work.SubmissionOf(kind); s != nil {
			r.other[kind] = f.String(kind, "", s.Usage)
		}
	}
	f.StringVar(&r.stdin, "stdin", "", "the `JSON` that the command reads")
	f.Func("env", "more environment, `NAME=value`; may be repeated", func(entry string) error {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" {
			return errors.New("it has the form NAME=value")
		}
		r.env = append(r.env, entry)
		return nil
	})
}

func (p *program) jobsCommand() *cobra.Command {
	inv := &invocation{}
	s := &inv.jobs.selected
	c := &cobra.Command{
		Use:   "jobs [flags] GROUP [workers | show|logs|cancel|retry|run|pause|resume ID]",
		Args:  cobra.MatchAll(cobra.RangeArgs(1, 3), inv.ofGroup, inv.ofVerb),
		Short: "Print the jobs of GROUP or its workers; cancel one, retry it, run it now, pause it",
		Long:  jobsHelp, ValidArgsFunction: completeVerb,
		RunE: p.doing(inv, action{run: showJobs}),
	}
	cli.Output(c, &inv.output, "table", "json")
	cli.Choice(c, (*string)(&s.State), "state", "", "only jobs in this `STATE`: ", "", "waiting",
		"assigned", "running", "done", "failed", "cancelled")
	f := c.Flags()
	f.StringVar(&s.Kind, "kind", "", "only jobs of this `KIND`: "+strings.Join(work.Kinds(), ", ")+
		" or one of your own")
	f.StringVar(&s.Text, "text", "", "only jobs with `TEXT` in the command, ID, resource, labels, "+
		"unique key, worker or error")
	return c
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

// verbs are what jobs does with one job. workers has none.
var verbs = map[string]func(*work.Invocation, context.Context, job.ID) int{
	"show": (*work.Invocation).Show, "logs": (*work.Invocation).Logs,
	"cancel": (*work.Invocation).Cancel, "retry": (*work.Invocation).Retry,
	"run":   (*work.Invocation).RunNow,
	"pause": (*work.Invocation).Pause, "resume": (*work.Invocation).Resume, "workers": nil,
}

// completeVerb completes what follows the group.
func completeVerb(
	_ *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(verbs)), cobra.ShellCompDirectiveNoFileComp
}

// ofGroup reads the argument that names a group.
func (inv *invocation) ofGroup(_ *cobra.Command, args []string) error {
	inv.jobs.group = args[0]
	_, err := group.New(nil, args[0])
	return err
}

// ofCapacity checks --capacity.
func (inv *invocation) ofCapacity(*cobra.Command, []string) error {
	if n := inv.jobs.work.Capacity; n < 1 {
		return fmt.Errorf("--capacity is %d: at least 1", n)
	}
	return nil
}

// ofVerb reads what jobs does with a job.
func (inv *invocation) ofVerb(c *cobra.Command, args []string) (err error) {
	if len(args) == 1 {
		return nil
	}
	inv.jobs.verb = args[1]
	verb, known := verbs[args[1]]
	switch {
	case !known:
		return fmt.Errorf("%q is none of workers, show, logs, cancel, retry, run, pause and resume",
			args[1])
	case verb == nil:
		return cobra.ExactArgs(2)(c, args)
	case len(args) == 2:
		return fmt.Errorf("the ID of the job is missing: leader jobs %s %s ID", args[0], args[1])
	}
	if inv.jobs.id, err = job.ParseID(args[2]); err != nil {
		err = fmt.Errorf("%w: leader submit prints it, and leader jobs %s lists all", err, args[0])
	}
	return err
}

// ofJob makes the job of submit. One that a flag names is read by handIn.
func (inv *invocation) ofJob(*cobra.Command, []string) (err error) {
	r := &inv.jobs
	asked := r.asked()
	switch {
	case len(asked) > 1:
		return fmt.Errorf("--%s and --%s: a job runs one of them", asked[0], asked[1])
	case len(asked) == 1 && (len(inv.command) > 0 || r.stdin != "" || r.env != nil):
		return fmt.Errorf("--%s takes no command, --stdin or --env", asked[0])
	case len(asked) == 1:
		return nil
	case len(inv.command) == 0:
		return errors.New("the command is missing: leader submit GROUP -- COMMAND" +
			each(", or --%s %s", value))
	case inv.command[0] == "":
		return errors.New("the command is empty: the first word after -- names a program")
	}
	c := work.Command{Argv: slices.Clone(inv.command), Env: r.env}
	if r.stdin != "" {
		c.Stdin = json.RawMessage(r.stdin)
	}
	r.spec, err = work.CommandSpec(r.spec, c)
	return err
}

// asked returns the kinds whose flags were given.
func (r *jobsRequest) asked() (kinds []string) {
	for _, kind := range slices.Sorted(maps.Keys(r.other)) {
		if *r.other[kind] != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
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

// handIn reads what a flag of submit names, such as a task file.
func (p *program) handIn(inv *invocation) (err error) {
	r := &inv.jobs
	for _, kind := range r.asked() {
		r.spec, err = work.SubmissionOf(kind).Spec(r.spec, *r.other[kind],
			func(name string) (string, bool) { return settings.Lookup(p.Env, name), true })
	}
	return err
}

// runWork implements leader work.
func runWork(p *program, ctx context.Context, inv *invocation) int {
	inv.logSettings(ctx)
	inv.jobs.work.EndGrace = inv.signals.Again()
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
