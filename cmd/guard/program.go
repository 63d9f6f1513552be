package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/user"

	"github.com/ringfence/ringfence/internal/logging"
	"github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/settings"
)

// Exit codes (DESIGN section 4).
const (
	exitDone  = 0
	exitError = 1
	exitUsage = 2
)

// program is everything that guard has from outside, so that a test can give it something else.
type program struct {
	env    []string
	stdout io.Writer
	stderr io.Writer
}

// command is one of guard's subcommands.
type command struct {
	name, arguments, summary string
	flags                    func(*flag.FlagSet) // declares what the subcommand takes
	run                      func(p *program, ctx context.Context, c *config, args []string) error
}

func (p *program) commands() []command {
	var o options
	return []command{
		{"serve", "", "accept clients and admit only sessions under a current token", nil, func(p *program, ctx context.Context, c *config, _ []string) error { return p.serve(ctx, c) }},
		{"install", "[--print]", "make or upgrade what the stores need; --print shows it instead", o.print, func(p *program, ctx context.Context, c *config, _ []string) error { return p.install(ctx, c, o) }},
		{"status", "[-o table|json]", "print the mark of every resource in every store", o.output, func(p *program, ctx context.Context, c *config, _ []string) error { return p.status(ctx, c, o) }},
		{"health", "", "ask the guard at GUARD_HTTP_LISTEN on this host whether it is ready: exit 0, or 1 with the reason; for health checks", nil, func(p *program, ctx context.Context, c *config, _ []string) error { return p.health(ctx, c) }},
		{"adopt", "[--new-issuer] RESOURCE", "start counting from the present coordinator: ends every session of RESOURCE and forgets its mark; --new-issuer: the coordinator was restored from a backup, and its tokens do not compare with those from before", o.issuer, func(p *program, ctx context.Context, c *config, args []string) error {
			return p.adopt(ctx, c, o, args)
		}},
	}
}

// options are the flags of all subcommands.
type options struct {
	printOnly bool
	format    string
	newIssuer bool
}

func (o *options) print(f *flag.FlagSet) { f.BoolVar(&o.printOnly, "print", false, "") }
func (o *options) issuer(f *flag.FlagSet) {
	f.BoolVar(&o.newIssuer, "new-issuer", false, "")
}
func (o *options) output(f *flag.FlagSet) {
	f.StringVar(&o.format, "o", "table", "")
}

// usageError is a mistake in the arguments.
type usageError struct{ what string }

func (e usageError) Error() string { return e.what }

func (p *program) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.usage(usageError{"no subcommand"})
	}
	if isHelp(args[0]) {
		return p.help()
	}
	for _, c := range p.commands() {
		if c.name == args[0] {
			return p.dispatch(ctx, c, args[1:])
		}
	}
	return p.usage(usageError{fmt.Sprintf("%q is not a subcommand", args[0])})
}

func (p *program) dispatch(ctx context.Context, c command, args []string) int {
	positional, err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return p.help()
	}
	if err != nil {
		return p.usage(usageError{err.Error()})
	}
	cfg, err := load(p.env)
	if err != nil {
		fmt.Fprintf(p.stderr, "guard: %v\n`guard %s -h` lists every setting with its default and meaning.\n", err, c.name)
		return exitUsage
	}
	redis.LogTo(logging.New(p.stderr, cfg.Log))
	err = c.run(p, ctx, cfg, positional)
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		return p.usage(wrong)
	case err != nil:
		fmt.Fprintf(p.stderr, "guard: %s\n", cfg.scrub(err.Error()))
		return exitError
	}
	return exitDone
}

// parse reads flags before and behind the positional arguments, of which it returns the latter.
func (c command) parse(args []string) (positional []string, err error) {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	if c.flags != nil {
		c.flags(f)
	}
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			break
		}
		positional = append(positional, f.Arg(0))
		args = f.Args()[1:]
	}
	if want := map[bool]int{true: 1}[c.name == "adopt"]; len(positional) != want {
		return nil, fmt.Errorf("%s takes %d arguments, got %d", c.name, want, len(positional))
	}
	return positional, nil
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "--help" || arg == "-help" || arg == "help"
}

// help prints the whole surface.
func (p *program) help() int {
	fmt.Fprint(p.stdout, "guard refuses writes of deposed leaders: a proxy before Postgres and Redis.\n\n")
	p.listCommands(p.stdout)
	fmt.Fprint(p.stdout, "\nSettings, from the environment:\n")
	if err := settings.Help(p.stdout, &config{}); err != nil {
		return exitError
	}
	fmt.Fprint(p.stdout, "\nExit codes: 0 done, 1 error, 2 wrong usage or settings.\n")
	return exitDone
}

func (p *program) listCommands(w io.Writer) {
	for _, c := range p.commands() {
		fmt.Fprintf(w, "  guard %-8s %-24s %s\n", c.name, c.arguments, c.summary)
	}
}

func (p *program) usage(err usageError) int {
	fmt.Fprintf(p.stderr, "guard: %v\n", err)
	p.listCommands(p.stderr)
	fmt.Fprint(p.stderr, "`guard -h` says more.\n")
	return exitUsage
}

// operator names who runs an administrative command.
func operator(host string) string {
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}
