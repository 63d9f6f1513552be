package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/user"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/logging"
	"github.com/ringfence/ringfence/internal/marks/redis"
)

// program is guard, with everything that it has from outside.
type program struct{ cli.Streams }

func (p *program) run(ctx context.Context, args []string) int {
	frame := cli.Program[*config]{
		Streams: p.Streams, Name: "guard", Commands: p.commands(),
		Load: func() (*config, error) { return load(p.Env) },
		Help: cli.Help{
			About:     "guard refuses writes of deposed leaders: a proxy before Postgres and Redis.",
			Settings:  &config{},
			ExitCodes: "Exit codes: 0 done, 1 error, 2 wrong usage or settings.\n",
			Columns:   [2]int{8, 24},
			Whole:     true,
		},
	}
	return frame.Main(ctx, args)
}

type command = cli.Command[*config]

func (p *program) commands() []command {
	var o options
	all := []command{
		{
			Name: "serve", Run: plain(p.serve),
			Summary: "accept clients and admit only sessions under a current token",
		},
		{
			Name: "install", Arguments: "[--print]", Flags: o.print,
			Run:     plain(func(ctx context.Context, c *config) error { return p.install(ctx, c, o) }),
			Summary: "make or upgrade what the stores need; --print shows it instead",
		},
		{
			Name: "status", Arguments: "[-o table|json]", Output: true, Run: p.status,
			Summary: "print the mark of every resource in every store",
		},
		{
			Name: "health", Run: plain(p.health),
			Summary: "ask the guard at GUARD_HTTP_LISTEN on this host whether it is ready: exit 0, or 1 " +
				"with the reason; for health checks",
		},
		{
			Name: "adopt", Arguments: "[--new-issuer] RESOURCE", Flags: o.issuer, Check: exactly("adopt", 1),
			Run: func(ctx context.Context, c *config, a cli.Arguments) error {
				return p.adopt(ctx, c, o, a.Names)
			},
			Summary: "start counting from the present coordinator: ends every session of RESOURCE and " +
				"forgets its mark; --new-issuer: the coordinator was restored from a backup, and its tokens " +
				"do not compare with those from before",
		},
	}
	for i, c := range all {
		if c.Check == nil {
			all[i].Check = exactly(c.Name, 0)
		}
		all[i].Run = p.discreet(c.Run)
	}
	return all
}

// plain is a subcommand that looks at no arguments.
func plain(run func(context.Context, *config) error) func(context.Context, *config, cli.Arguments) error {
	return func(ctx context.Context, c *config, _ cli.Arguments) error { return run(ctx, c) }
}

// exactly is a subcommand's check for this many arguments.
func exactly(name string, want int) func(cli.Arguments) error {
	return func(a cli.Arguments) error {
		if len(a.Names) != want {
			return fmt.Errorf("%s takes %d arguments, got %d", name, want, len(a.Names))
		}
		return nil
	}
}

// discreet runs a subcommand whose errors then have no secret in them.
func (p *program) discreet(
	run func(context.Context, *config, cli.Arguments) error,
) func(context.Context, *config, cli.Arguments) error {
	return func(ctx context.Context, c *config, a cli.Arguments) error {
		redis.LogTo(logging.New(p.Stderr, c.Log))
		err := run(ctx, c, a)
		if _, wrong := errors.AsType[cli.Mistake](err); err == nil || wrong {
			return err
		}
		return errors.New(c.scrub(err.Error()))
	}
}

// options are the flags of all subcommands.
type options struct {
	printOnly bool
	newIssuer bool
}

func (o *options) print(f *flag.FlagSet)  { f.BoolVar(&o.printOnly, "print", false, "") }
func (o *options) issuer(f *flag.FlagSet) { f.BoolVar(&o.newIssuer, "new-issuer", false, "") }

// operator names who runs an administrative command.
func operator(host string) string {
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}
