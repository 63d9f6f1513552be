package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/settings"
)

type config struct {
	Name string `env:"T_NAME"`
}

func (*config) Texts() settings.Texts {
	return settings.Texts{"T_NAME": {Meaning: "who\n\tthis is"}}
}

// trial is a program whose subcommands record their arguments.
type trial struct {
	cli.Program[*config]
	out, log bytes.Buffer
	ran      string
	given    cli.Arguments
	loud     bool
	bad      error // of the settings
	ends     error // of every subcommand
}

func newTrial(change func(*trial)) *trial {
	t := &trial{}
	t.Name, t.Stdout, t.Stderr = "tool", &t.out, &t.log
	t.Load = func() (*config, error) { return &config{}, t.bad }
	t.Help = cli.Help{
		About: "tool does things.", Settings: &config{}, ExitCodes: "Exit codes: 0 done.\n",
	}
	t.Commands = []cli.Command[*config]{
		{Name: "do", Arguments: "THING", Summary: "do a thing", Run: t.run("do"),
			More:  "A thing is done once.\n",
			Flags: func(f *flag.FlagSet) { f.BoolVar(&t.loud, "loud", false, "with a sound") },
			Check: func(a cli.Arguments) error {
				if len(a.Names) == 0 {
					return errors.New("THING is missing")
				}
				return nil
			}},
		{Name: "do list", Arguments: "[-o table|json]", Summary: "list things", Output: true,
			Run: t.run("do list")},
		{Name: "undo", Summary: "undo the last thing", Run: t.run("undo")},
	}
	if change != nil {
		change(t)
	}
	return t
}

func (t *trial) run(name string) func(context.Context, *config, cli.Arguments) error {
	return func(_ context.Context, _ *config, a cli.Arguments) error {
		t.ran, t.given = name, a
		return t.ends
	}
}

func TestArgumentsReachTheSubcommandThatTheyName(t *testing.T) {
	for _, c := range []struct {
		args  string
		apart bool
		ran   string
		loud  bool
		want  cli.Arguments
	}{
		{"do it", false, "do", false, cli.Arguments{Names: []string{"it"}}},
		{"do it -loud again", false, "do", true, cli.Arguments{Names: []string{"it", "again"}}},
		{"do --loud it", false, "do", true, cli.Arguments{Names: []string{"it"}}},
		{"do list", false, "do list", false, cli.Arguments{Output: "table"}},
		{"do list -o json x", false, "do list", false, cli.Arguments{
			Output: "json", Names: []string{"x"},
		}},
		{"do -- -loud", false, "do", false, cli.Arguments{Names: []string{"-loud"}}},
		{"do it -- ls -loud", true, "do", false, cli.Arguments{
			Names: []string{"it"}, Dashed: true, Rest: []string{"ls", "-loud"},
		}},
		{"do it --", true, "do", false, cli.Arguments{
			Names: []string{"it"}, Dashed: true, Rest: []string{},
		}},
		{"undo", true, "undo", false, cli.Arguments{}},
	} {
		p := newTrial(func(p *trial) { p.SetsApart = c.apart })
		code := p.Main(t.Context(), strings.Fields(c.args))
		if code != cli.Done || p.ran != c.ran || p.loud != c.loud || !reflect.DeepEqual(p.given, c.want) {
			t.Errorf("tool %s: code %d, %q was given %+v, %s", c.args, code, p.ran, p.given, &p.log)
		}
	}
}

func TestAUsageErrorShowsTheCorrectUsageBeforeTheSettingsAreRead(t *testing.T) {
	const do, doList = "  tool do THING\n", "  tool do list [-o table|json]\n"
	for args, want := range map[string]string{
		"":     "tool: no subcommand; `tool -h` lists them\n",
		"redo": "tool: \"redo\" is not a subcommand; `tool -h` lists them\n",
		"do":   "tool: THING is missing\n" + do + doList + "`tool do -h` says more.\n",
		"do list -loud": "tool: flag provided but not defined: -loud\n" + doList + "`tool do list -h` " +
			"says more.\n",
		"do -o json it": "tool: flag provided but not defined: -o\n" + do + doList + "`tool do -h` " +
			"says more.\n",
	} {
		p := newTrial(func(p *trial) { p.bad = errors.New("never seen") })
		code := p.Main(t.Context(), strings.Fields(args))
		if got := p.log.String(); code != cli.Usage || p.ran != "" || got != want {
			t.Errorf("tool %s: code %d, %q ran, it says\n%s", args, code, p.ran, got)
		}
	}
}

const wholeHelp = `tool does things.

  tool do          do a thing
  tool do list     list things
  tool undo        undo the last thing
  tool version     print the version of this program
  tool completion  print what completes commands and flags in a shell
  tool manual      print the manual page, for man -l -

` + "`tool COMMAND -h`" + ` has the arguments of a command.

Settings, from the environment:
  T_NAME (not set by default)
      who this is

Exit codes: 0 done.
`

const allSettings = "\n`tool -h` lists every setting, and the exit codes.\n"

func TestHelpIsPrintedForEveryFormOfTheFlag(t *testing.T) {
	for args, want := range map[string]string{
		"-h":        wholeHelp,
		"help":      wholeHelp,
		"--help do": wholeHelp,
		"do it -h": "tool do THING\n\nDo a thing.\n\nA thing is done once.\n\n" +
			"  --loud            with a sound\n" + allSettings,
		"do list --help": "tool do list [-o table|json]\n\nList things.\n\n" +
			"  -o FORMAT         table or json\n" + allSettings,
		"undo -h": "tool undo\n\nUndo the last thing.\n" + allSettings,
	} {
		p := newTrial(func(p *trial) { p.bad = errors.New("never seen") })
		if code := p.Main(t.Context(), strings.Fields(args)); code != cli.Done || p.ran != "" ||
			p.out.String() != want || p.log.Len() > 0 {
			t.Errorf("tool %s: code %d, stderr %q, it says\n%s", args, code, &p.log, &p.out)
		}
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		p := newTrial(func(p *trial) { p.bad = errors.New("never seen") })
		if code := p.Main(t.Context(), []string{arg}); code != cli.Done ||
			!strings.HasPrefix(p.out.String(), "tool ") ||
			!strings.Contains(p.out.String(), "go1.") {
			t.Errorf("tool %s: code %d, it says %s", arg, code, &p.out)
		}
	}
}

func TestBadSettingsAreAUsageError(t *testing.T) {
	p := newTrial(func(p *trial) { p.bad = errors.New("2 problems") })
	code := p.Main(t.Context(), []string{"do", "list"})
	want := "tool: 2 problems\n`tool -h` lists every setting with its default and meaning.\n"
	if code != cli.Usage || p.ran != "" || p.log.String() != want {
		t.Errorf("code %d, %q ran, it says %s", code, p.ran, &p.log)
	}
}

func TestTheErrorOfASubcommandDeterminesTheExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{nil, cli.Done, ""},
		{errors.New("it broke"), cli.Error, "tool: it broke\n"},
		{cli.Exit(cli.Lost), cli.Lost, ""},
		{cli.Exit(cli.Done), cli.Done, ""},
		{fmt.Errorf("late: %w", cli.Mistake("not so")), cli.Usage,
			"tool: not so\n  tool undo\n`tool undo -h` says more.\n"},
	} {
		p := newTrial(func(p *trial) { p.ends = c.err })
		if code := p.Main(t.Context(), []string{"undo"}); code != c.code || p.log.String() != c.says {
			t.Errorf("%v: code %d, it says %s", c.err, code, &p.log)
		}
	}
}

type signal struct{}

func (signal) Error() string { return "got SIGTERM" }
func (signal) Code() int     { return 143 }

func TestASignalIsReportedInsteadOfTheErrorThatItCaused(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("over: %w", signal{}))
	for _, c := range []struct {
		ctx  context.Context
		code int
		says string
	}{
		{t.Context(), cli.Error, "could not ask"}, {ended, 143, "ended by a signal"},
	} {
		var log bytes.Buffer
		code := cli.Failed(c.ctx, slog.New(slog.NewTextHandler(&log, nil)), "ask",
			errors.New("no answer"))
		if code != c.code || !strings.Contains(log.String(), c.says) {
			t.Errorf("code %d: %s", code, &log)
		}
	}
}

func TestNamesThatWouldBreakTheLayoutAreQuoted(t *testing.T) {
	for given, want := range map[string]string{
		"a:1": "a:1", "Ünal": "Ünal", "": `""`, "a b": `"a b"`, "\x1b[2J": `"\x1b[2J"`, `"`: `"\""`,
	} {
		if got := cli.Printable(given); got != want {
			t.Errorf("%q became %s", given, got)
		}
	}
}
