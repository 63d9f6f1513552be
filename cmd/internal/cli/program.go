package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/version"
)

// Streams are a program's environment, input and output. Tests replace them.
type Streams struct {
	Env    []string // as os.Environ returns it
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Program is a program with commands.
type Program struct {
	Streams
	Root *cobra.Command

	// These are the end of the help on the program.
	Settings  any // a pointer to a struct, as settings.Load takes it
	ExitCodes string

	running bool // a RunE has been called, so its arguments are right
}

// Passes are the annotations of a command that passes on the exit code of another one, by Passed.
var Passes = map[string]string{"exit code": "passed on"}

// Main runs the command that the arguments name, and returns the exit code.
func (p *Program) Main(ctx context.Context, args []string) int {
	p.prepare()
	p.Root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	c, err := p.Root.ExecuteContextC(ctx)
	return p.code(c, err)
}

// prepare adds what every program has.
func (p *Program) prepare() {
	root := p.Root
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.Version = version.Of().String()
	root.AddCommand(versionCommand())
	root.AddCommand(p.manual()...)
	root.InitDefaultCompletionCmd()
	root.SetHelpFunc(p.help(root.HelpFunc()))
	p.each(root)
}

// each prepares a command, and those below it.
func (p *Program) each(c *cobra.Command) {
	refuseEmpty(c.Flags())
	if !c.Runnable() {
		c.RunE = func(*cobra.Command, []string) error { return Mistake("a command is missing") }
	}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		p.running = true
		return run(c, args)
	}
	for _, below := range c.Commands() {
		p.each(below)
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s version %s\n", c.Root().Name(), c.Root().Version)
			return err
		},
	}
}

// help adds the settings and the exit codes to the help on the program, and where they are to that
// on a command.
func (p *Program) help(usual func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, args []string) {
		usual(c, args)
		if c.HasParent() {
			fmt.Fprintf(p.Stdout, "\n`%s --help` lists every setting, and the exit codes.\n", p.Root.Name())
			return
		}
		fmt.Fprintf(p.Stdout, "\nSettings, from the environment:\n%s\n%s", p.settings(), p.ExitCodes)
	}
}

// settings describes every setting.
func (p *Program) settings() string {
	var b strings.Builder
	_ = settings.Help(&b, p.Settings) // a Builder takes everything
	return b.String()
}

// code reports the error of a command and returns the exit code.
func (p *Program) code(c *cobra.Command, err error) int {
	switch {
	case err == nil, err == error(Exit(Done)), err == error(Passed(Done)):
		err = p.unprinted()
	case !p.running:
		err = Mistake(err.Error())
	}
	if err == nil {
		return Done
	}
	if passed, ok := errors.AsType[Passed](err); ok {
		return int(passed)
	}
	if exit, ok := errors.AsType[Exit](err); ok {
		return own(c, int(exit))
	}
	name, more := p.Root.Name(), ""
	code := Usage
	if wrong, ok := errors.AsType[Mistake](err); ok {
		err = errors.New(strings.TrimSpace(wrong.Error()))
		more = fmt.Sprintf("  %s\n`%s --help` says more.\n", c.UseLine(), c.CommandPath())
	} else if _, ok := errors.AsType[settings.Problems](err); ok {
		more = fmt.Sprintf("`%s --help` lists every setting with its default and meaning.\n", name)
	} else {
		code = Error
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n%s", name, err, more)
	return own(c, code)
}

// own returns the exit code for a failure of the command itself.
func own(c *cobra.Command, code int) int {
	_, passes := c.Annotations["exit code"]
	if passes && code >= Error && code <= Lost {
		return OwnOffset + code
	}
	return code
}

// unprinted returns the error of a command that has succeeded, but whose output went nowhere.
func (p *Program) unprinted() error {
	if out, ok := p.Stdout.(interface{ Err() error }); ok && out.Err() != nil {
		return fmt.Errorf("the command was carried out, but its output could not be written: %w",
			out.Err())
	}
	return nil
}
