package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/settings"
)

type config struct {
	Name string `env:"T_NAME"`
}

func (*config) Texts() settings.Texts {
	return settings.Texts{"T_NAME": {Meaning: "who\n\tthis is"}}
}

// trial is a program with the commands "do THING", "do list" and "pass", which return an error.
type trial struct {
	out, log bytes.Buffer
	stdout   io.Writer // nil for out
	ran      string
	format   string
	name     string
	ends     error // of every command
}

func (t *trial) main(ctx context.Context, args ...string) int {
	root := &cobra.Command{Use: "tool", Short: "Do things"}
	run := func(c *cobra.Command, args []string) error {
		t.ran = c.Name() + " " + strings.Join(args, " ")
		return t.ends
	}
	do := &cobra.Command{Use: "do [flags] THING", Args: cobra.ExactArgs(1), Short: "Do it", RunE: run}
	do.Flags().StringVar(&t.name, "name", "", "a `NAME`")
	list := &cobra.Command{Use: "list", Args: cobra.NoArgs, RunE: run}
	cli.Output(list, &t.format, "table", "json")
	do.AddCommand(list)
	pass := &cobra.Command{Use: "pass", Annotations: cli.Passes, Args: cobra.NoArgs, RunE: run}
	root.AddCommand(do, pass)
	p := cli.Program{Root: root, Settings: &config{}, ExitCodes: "Exit codes: 0 done.\n"}
	p.Stdout, p.Stderr = &t.out, &t.log
	if t.stdout != nil {
		p.Stdout = t.stdout
	}
	return p.Main(ctx, args)
}

func TestWrongUsageExits2AndSaysHowToGetHelp(t *testing.T) {
	for args, want := range map[string]string{
		"":                 "tool: a command is missing\n  tool [flags]\n`tool --help` says more.\n",
		"dp":               "Did you mean this?\n\tdo\n",
		"do":               "  tool do [flags] THING\n`tool do --help` says more.\n",
		"do it --loud":     "unknown flag: --loud\n  tool do [flags] THING\n`tool do --help` says",
		"do it --name=":    `"--name" flag: it is empty: leave the flag out, or give it a value`,
		"do list -o yaml":  `"-o, --output" flag: it takes table or json`,
		"completion":       "a command is missing",
		"completion tcsh":  `unknown command "tcsh"`,
		"pass on":          "`tool pass --help` says more.\n",
		"version 2":        "`tool version --help` says more.\n",
		"do list --output": "--output",
	} {
		var tool trial
		code, usage := tool.main(t.Context(), strings.Fields(args)...), cli.Usage
		if strings.HasPrefix(args, "pass") {
			usage += cli.OwnOffset
		}
		if code != usage || tool.ran != "" || tool.out.Len() > 0 ||
			!strings.HasPrefix(tool.log.String(), "tool: ") || !strings.Contains(tool.log.String(), want) {
			t.Errorf("tool %s: code %d, %q ran, it says\n%s%s", args, code, tool.ran, &tool.log, &tool.out)
		}
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	const settings = "Settings, from the environment:\n  T_NAME (not set by default)\n" +
		"      who this is\n"
	for args, want := range map[string]string{
		"--help":                settings + "\nExit codes: 0 done.\n",
		"help":                  settings + "\nExit codes: 0 done.\n",
		"do it -h":              "\n`tool --help` lists every setting, and the exit codes.\n",
		"do list --help":        "-o, --output FORMAT   print it as FORMAT: table or json",
		"version":               "tool version ",
		"--version":             "tool version ",
		"completion bash":       "__tool",
		"completion zsh":        "#compdef tool",
		"completion fish":       "complete -c tool",
		"__complete do lis":     "list\n",
		"completion powershell": "Register-ArgumentCompleter",
	} {
		tool := trial{ends: errors.New("never seen")}
		code := tool.main(t.Context(), strings.Split(args, " ")...)
		if strings.HasPrefix(args, "__complete") { // it says on stderr what it has done
			tool.log.Reset()
		}
		if code != cli.Done || tool.ran != "" || tool.log.Len() > 0 ||
			!strings.Contains(tool.out.String(), want) {
			t.Errorf("tool %s: code %d, stderr %q, it says\n%s", args, code, &tool.log, &tool.out)
		}
	}
}

func TestTheErrorOfACommandDeterminesTheExitCode(t *testing.T) {
	for _, c := range []struct {
		err          error
		code, passes int
		says         string
	}{
		{nil, cli.Done, cli.Done, ""},
		{cli.Exit(cli.Done), cli.Done, cli.Done, ""},
		{cli.Exit(cli.Lost), cli.Lost, cli.OwnOffset + cli.Lost, ""},
		{cli.Exit(cli.Uncovered), cli.Uncovered, cli.Uncovered, ""},
		{cli.Passed(cli.Lost), cli.Lost, cli.Lost, ""},
		{errors.New("it broke"), cli.Error, cli.OwnOffset + cli.Error, "tool: it broke\n"},
		{fmt.Errorf("late: %w", cli.Mistake("not so")), cli.Usage, cli.OwnOffset + cli.Usage,
			"tool: not so\n  tool do list [flags]\n`tool do list --help` says more.\n"},
		{settings.Problems{errors.New("T_NAME is bad")}, cli.Usage, cli.OwnOffset + cli.Usage,
			"tool: 1 problem with the settings:\n  - T_NAME is bad\n`tool --help` lists every setting " +
				"with its default and meaning.\n"},
	} {
		tool := trial{ends: c.err}
		code := tool.main(t.Context(), "do", "list")
		if code != c.code || tool.log.String() != c.says {
			t.Errorf("%v: code %d, it says %s", c.err, code, &tool.log)
		}
		if code := tool.main(t.Context(), "pass"); code != c.passes {
			t.Errorf("%v: code %d of a command that passes codes on", c.err, code)
		}
	}
}

// broken is an output that cannot be written.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left") }
func (broken) Err() error                { return errors.New("no space left") }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	for _, args := range []string{"do list", "--help", "version", "completion bash"} {
		tool := trial{stdout: broken{}}
		code := tool.main(t.Context(), strings.Fields(args)...)
		if code != cli.Error || !strings.Contains(tool.log.String(), "no space left") {
			t.Errorf("tool %s: code %d, it says %s", args, code, &tool.log)
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
