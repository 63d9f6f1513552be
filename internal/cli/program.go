package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Streams is everything that a program has from outside, so that a test can give it something else.
type Streams struct {
	Env    []string // as os.Environ returns it
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Program is a program with subcommands. C is what it makes of its settings.
type Program[C any] struct {
	Streams
	Name     string
	Commands []Command[C]

	// Load reads the settings from the environment. Its error lists every problem.
	Load func() (C, error)

	// Help says what the program prints when it is asked for help, or called wrongly.
	Help Help

	// SetsApart has what follows "--" handed to the subcommand apart, such as a command to run.
	// Otherwise "--" means nothing but that no flag follows.
	SetsApart bool
}

// Command is a subcommand.
type Command[C any] struct {
	Name      string // may be of several words; the longer name counts where two fit
	Arguments string
	Summary   string
	More      string                // what -h says of it besides the summary
	Output    bool                  // takes -o table|json
	Flags     func(*flag.FlagSet)   // declares what else it takes; nil for nothing
	Check     func(Arguments) error // looks at the arguments first; its error is a mistake of usage
	Run       func(ctx context.Context, c C, a Arguments) error
}

// Arguments is what stands behind a subcommand, without the flags.
type Arguments struct {
	Names  []string
	Dashed bool     // there was a "--", and SetsApart
	Rest   []string // what followed it
	Output string   // of -o; "table" unless given
}

// Known tells whether -o names a form that there is.
func (a Arguments) Known() bool { return a.Output == "table" || a.Output == "json" }

// Mistake is a wrong usage. A subcommand that returns one has changed nothing.
type Mistake string

// Error implements error.
func (m Mistake) Error() string { return string(m) }

// Exit is the error of a subcommand that has said what there is to say, and exits with this code.
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs the subcommand that the arguments name, and returns the exit code. It checks the
// arguments, then the settings: nobody has to wait for a connection to learn about a typing error.
func (p *Program[C]) Main(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.mistake("", errors.New("no subcommand"))
	}
	if isHelp(args[0]) {
		return p.help()
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
		return p.mistake(c.Name, err)
	}
	settings, err := p.Load()
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n`%s %s -h` lists every setting with its default and meaning.\n",
			p.Name, err, p.Name, c.Name)
		return Usage
	}
	return p.code(c, c.Run(ctx, settings, a))
}

// code is what the end of a subcommand is to whoever has started the program.
func (p *Program[C]) code(c Command[C], err error) int {
	if exit, ok := errors.AsType[Exit](err); ok {
		return int(exit)
	}
	if wrong, ok := errors.AsType[Mistake](err); ok {
		return p.mistake(c.Name, wrong)
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
		return Error
	}
	return Done
}

// find is the subcommand that the arguments begin with: the longer name where two fit.
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

// parse reads what begins with '-' wherever it stands, and returns the rest. The error is
// flag.ErrHelp for -h.
func (p *Program[C]) parse(c Command[C], args []string) (a Arguments, err error) {
	if i := slices.Index(args, "--"); i >= 0 && p.SetsApart {
		args, a.Rest, a.Dashed = args[:i], args[i+1:], true
	}
	set := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if c.Output {
		set.StringVar(&a.Output, "o", "table", "")
	}
	if c.Flags != nil {
		c.Flags(set)
	}
	for len(args) > 0 {
		if err := set.Parse(args); err != nil {
			return a, err
		}
		if args = set.Args(); len(args) > 0 {
			a.Names, args = append(a.Names, args[0]), args[1:]
		}
	}
	return a, nil
}

func isHelp(arg string) bool {
	return slices.Contains([]string{"-h", "-help", "--help", "help"}, arg)
}
