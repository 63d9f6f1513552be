package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/version"
)

// Streams are a program's environment, input and output. Tests replace them.
type Streams struct {
	Env    []string // as os.Environ returns it
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Program is a program with subcommands. C is the type of its loaded settings.
type Program[C any] struct {
	Streams
	Name     string
	Commands []Command[C]

	// Load reads the settings from the environment. Its error lists every problem.
	Load func() (C, error)

	// Help is printed by -h.
	Help Help

	// SetsApart puts the arguments after "--" into Arguments.Rest, such as a command to run.
	// Otherwise "--" only means that no flag follows.
	SetsApart bool
}

// Command is a subcommand.
type Command[C any] struct {
	Name      string // one or more words; if two names match, the longer one wins
	Arguments string
	Summary   string                // a few words, for the list of subcommands
	More      string                // the page of -h has it after the summary
	Output    bool                  // takes -o table|json
	Wide      bool                  // takes -o wide as well
	Passes    bool                  // passes on the exit code of a command, by Passed
	Flags     func(*flag.FlagSet)   // declares further flags, each with its usage; nil for none
	Check     func(Arguments) error // checks the arguments first; its error is a usage error
	Run       func(ctx context.Context, c C, a Arguments) error
}

// Arguments are the arguments after a subcommand, without the flags.
type Arguments struct {
	Names  []string
	Dashed bool     // there was a "--", and SetsApart
	Rest   []string // the arguments after it
	Output string   // the value of -o: table (the default), json, or wide
}

// Mistake is a usage error. A subcommand that returns one has changed nothing.
type Mistake string

// Error implements error.
func (m Mistake) Error() string { return string(m) }

// Exit is the error of a subcommand that has already reported the reason. It is the exit code.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Passed is the error of a subcommand that ends with the exit code of a command.
type Passed int

// Error implements error.
func (e Passed) Error() string { return fmt.Sprintf("exit code %d of the command", int(e)) }

// own returns the exit code for a failure of the subcommand itself.
func (c Command[C]) own(code int) int {
	if c.Passes && code >= Error && code <= Lost {
		return Apart + code
	}
	return code
}

// Main runs the subcommand that the arguments name, and returns the exit code. It checks the
// arguments, then the settings, so a typing error is reported before any connection is opened.
func (p *Program[C]) Main(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.mistake("", errors.New("no subcommand"))
	}
	if isHelp(args[0]) {
		return p.help()
	}
	switch args[0] {
	case "version", "--version":
		return p.print(p.Name + " " + version.Of().String() + "\n")
	case "completion":
		return p.complete(args[1:])
	case "manual":
		return p.print(p.manual())
	}
	c, rest, ok := p.find(args)
	if !ok {
		return p.mistake("", fmt.Errorf("%q is not a subcommand", args[0]))
	}
	a, err := p.parse(c, rest)
	if err == nil && c.Check != nil {
		err = c.Check(a)
	}
	if errors.Is(err, flag.ErrHelp) {
		return p.helpOn(c)
	}
	if err != nil {
		return c.own(p.mistake(c.Name, err))
	}
	settings, err := p.Load()
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n`%s -h` lists every setting with its default and meaning.\n",
			p.Name, err, p.Name)
		return c.own(Usage)
	}
	return p.code(c, c.Run(ctx, settings, a))
}

// code reports a subcommand's error and returns the exit code.
func (p *Program[C]) code(c Command[C], err error) int {
	if err == nil || err == error(Exit(Done)) || err == error(Passed(Done)) {
		err = p.unprinted()
	}
	if passed, ok := errors.AsType[Passed](err); ok {
		return int(passed)
	}
	if exit, ok := errors.AsType[Exit](err); ok {
		return c.own(int(exit))
	}
	if wrong, ok := errors.AsType[Mistake](err); ok {
		return c.own(p.mistake(c.Name, wrong))
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
		return c.own(Error)
	}
	return Done
}

// unprinted returns the error of a subcommand that has succeeded, but whose output went nowhere.
func (p *Program[C]) unprinted() error {
	if out, ok := p.Stdout.(interface{ Err() error }); ok && out.Err() != nil {
		return fmt.Errorf("the command was carried out, but its output could not be written: %w",
			out.Err())
	}
	return nil
}

// find returns the subcommand whose name the arguments begin with. If two match, the longer name
// wins.
func (p *Program[C]) find(args []string) (found Command[C], rest []string, ok bool) {
	for _, c := range p.Commands {
		name := strings.Fields(c.Name)
		longer := !ok || len(name) > len(strings.Fields(found.Name))
		if longer && len(args) >= len(name) && slices.Equal(args[:len(name)], name) {
			found, rest, ok = c, args[len(name):], true
		}
	}
	return found, rest, ok
}

// parse reads flags at any position, and returns the other arguments. Its error is flag.ErrHelp for
// -h.
func (p *Program[C]) parse(c Command[C], args []string) (a Arguments, err error) {
	if i := slices.Index(args, "--"); i >= 0 && p.SetsApart {
		args, a.Rest, a.Dashed = args[:i], args[i+1:], true
	}
	set := c.flagSet(&a)
	set.VisitAll(func(f *flag.Flag) { f.Value = given{f.Value} })
	for len(args) > 0 {
		if err := set.Parse(args); err != nil {
			return a, err
		}
		if args = set.Args(); len(args) > 0 {
			a.Names, args = append(a.Names, args[0]), args[1:]
		}
	}
	if formats := c.formats(); c.Output && !slices.Contains(formats, a.Output) {
		return a, fmt.Errorf("-o takes %s, not %q", strings.Join(formats, " or "), a.Output)
	}
	return a, nil
}

func (c Command[C]) formats() []string {
	if c.Wide {
		return []string{"table", "wide", "json"}
	}
	return []string{"table", "json"}
}

// flagSet declares the flags of a subcommand.
func (c Command[C]) flagSet(a *Arguments) *flag.FlagSet {
	set := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if c.Output {
		set.StringVar(&a.Output, "o", "table", "`FORMAT`: "+strings.Join(c.formats(), " or "))
	}
	if c.Flags != nil {
		c.Flags(set)
	}
	return set
}

func isHelp(arg string) bool {
	return slices.Contains([]string{"-h", "-help", "--help", "help"}, arg)
}
