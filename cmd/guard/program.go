package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/user"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
)

// program is guard with its dependencies, which tests replace, and the flags of its subcommand.
type program struct {
	cli.Streams
	options options
}

func (p *program) run(ctx context.Context, args []string) int {
	cmd := cli.Program[*config]{
		Streams: p.Streams, Name: "guard", Commands: p.commands(),
		Load: func() (*config, error) { return load(p.Env) },
		Help: cli.Help{
			About:    "guard is a proxy for Postgres and Redis that refuses writes of deposed leaders.",
			Settings: &config{},
			ExitCodes: "Stores: --databases and --database name databases of a Postgres server, " +
				"--all means all " +
				"of them, and\n--server S chooses one server, such as archive. Without these flags a " +
				"command is " +
				"for the databases\nof GUARD_POSTGRES_DATABASES or, if that is not set, for the one of " +
				"GUARD_POSTGRES_UPSTREAM; guard status\nis then for all that have the schema.\n\n" +
				"Exit codes: 0 done, 1 error, 2 wrong usage or settings, 4 guard check has found " +
				"something that --accept does not name.\n",
		},
	}
	return cmd.Main(ctx, args)
}

type command = cli.Command[*config]

func (p *program) commands() []command {
	o := &p.options
	all := []command{
		{
			Name: "serve", Run: p.serve,
			Summary: "accept clients and admit only sessions under a current token",
		},
		{
			Name: "install", Arguments: "[--print] [--all | --databases D,…] [--server S]",
			Flags: flags(o.print, o.several), Run: p.install,
			Summary: "create or upgrade the schema in every store",
			More:    "It may be repeated: it changes no mark.\n",
		},
		{
			Name: "uninstall", Arguments: "[--yes] [--with-data] [--all | --databases D,…] [--server S]",
			Flags: flags(o.removing, o.several), Run: p.uninstall,
			Summary: "list what install has made, or remove it with --yes",
			More: "Removing the marks lets old leaders write again: stop all leaders and guards first, " +
				"paused ones\n" +
				"too. The command removes nothing while a session is open, a guard is connected, an " +
				"election is\n" +
				"running or a table is sealed, and says which. Without flags it is for all databases " +
				"that have\n" +
				"the schema, and for the elections in Postgres.\n",
		},
		{
			Name: "status", Arguments: "[-o table|wide|json] [--limit N] [--all | --databases D,…] " +
				"[--server S] [RESOURCE…]",
			Output: true, Wide: true, Flags: flags(o.limited, o.several), Check: patterns, Run: p.status,
			Summary: "print the marks in every store",
			More: "Of every resource, or of those that are named, also by patterns such as 'orders_*'. " +
				"The holder is\n" +
				"who raised the mark; it may have lost its term since. -o wide also prints issuers.\n",
		},
		{
			Name: "health", Run: p.health,
			Summary: "ask the guard of this host whether it is ready",
			More: "It asks at GUARD_HTTP_LISTEN. The exit code is 0, or 1 with the reason; for health " +
				"checks of\n" +
				"containers.\n",
		},
		{
			Name: "adopt", Arguments: "[--new-issuer] [--all | --databases D,…] [--server S] RESOURCE",
			Flags: flags(o.issuer, o.several), Check: exactly(1), Run: p.adopt,
			Summary: "reset a resource to the present coordinator",
			More: "DANGER: stop every old leader first, paused ones too. Without a coordinator their " +
				"tokens may be\n" +
				"accepted afterwards. The command ends all sessions of RESOURCE and forgets its mark.\n",
		},
		{
			Name: "protect", Arguments: "[--resource R] [--print] [--database D] [--server S] [--schema " +
				"S,…] [TABLE…]",
			Flags: flags(o.sealed, o.print, o.single, o.inSchemas), Check: p.someTable, Run: p.protect,
			Summary: "seal tables of Postgres",
			More: "Sealed tables, with their partitions and children, take writes only under the " +
				"mark of the\n" +
				"resource, also from clients that go round the guard.\n",
		},
		{
			Name: "unprotect", Arguments: "[--print] [--database D] [--server S] [--schema S,…] [TABLE…]",
			Flags: flags(o.print, o.single, o.inSchemas), Check: p.someTable, Run: p.unprotect,
			Summary: "take the seals off tables",
		},
		{
			Name: "check", Arguments: "[-o table|json] [--database D] [--server S] [--schema S,…] " +
				"[--accept ID[:OBJECT],…]",
			Output: true, Flags: flags(o.accepted, o.single, o.inSchemas), Run: p.check,
			Summary: "report how writes could reach Postgres past the guard and the seals",
			More:    "The exit code is 4 if there is a way that --accept does not name, 0 if not.\n",
		},
		{
			Name: "allow", Arguments: "[-o table|json] [--all | --databases D,…] [--server S] [ROLE " +
				"RESOURCE…]",
			Output: true, Flags: o.several, Check: takes("allow takes a role and its resources, or "+
				"nothing to list what is allowed", notOne), Run: p.allow,
			Summary: "let a role claim resources, or list what is allowed",
			More: "ROLE is a role of Postgres, which stands for its members, too, or a user of Redis. " +
				"Resources may be\n" +
				"patterns such as 'orders_*'.\n",
		},
		{
			Name: "forbid", Arguments: "[--all | --databases D,…] [--server S] ROLE [RESOURCE…]",
			Flags: o.several, Check: takes("forbid takes a role, and the resources or patterns to take "+
				"back (all, if none is named)", some), Run: p.forbid,
			Summary: "take back what allow gave",
			More:    "These resources or patterns, or all of the role.\n",
		},
		{
			Name: "authorize", Arguments: "[--force] [--all | --databases D,…] [--server S] on|off",
			Flags: flags(o.forced, o.several), Check: takes("authorize takes on or off", onOrOff),
			Run:     p.authorize,
			Summary: "restrict claims to the roles of guard allow, or not",
			More: "on: only roles that guard allow has listed may claim. off: any role may. It ends no " +
				"session.\n",
		},
	}
	for i, c := range all {
		if c.Check == nil {
			all[i].Check = exactly(0)
		}
		all[i].Run = p.scrubbed(c.Run)
	}
	return all
}

// exactly checks the number of arguments.
func exactly(want int) func(cli.Arguments) error {
	return func(a cli.Arguments) error {
		if got := len(a.Names); got > want {
			return fmt.Errorf("%q is one argument too many", a.Names[want])
		} else if got < want {
			return errors.New("an argument is missing")
		}
		return nil
	}
}

// takes checks the arguments in another way, and otherwise says what the command takes.
func takes(what string, fits func(names []string) bool) func(cli.Arguments) error {
	return func(a cli.Arguments) error {
		if !fits(a.Names) {
			return errors.New(what)
		}
		return nil
	}
}

func some(names []string) bool   { return len(names) > 0 }
func notOne(names []string) bool { return len(names) != 1 }
func onOrOff(names []string) bool {
	return len(names) == 1 && (names[0] == "on" || names[0] == "off")
}

// scrubbed removes the secrets from a subcommand's errors.
func (p *program) scrubbed(
	run func(context.Context, *config, cli.Arguments) error,
) func(context.Context, *config, cli.Arguments) error {
	return func(ctx context.Context, c *config, a cli.Arguments) error {
		logDrivers(logging.New(p.Stderr, c.Log))
		err := run(ctx, c, a)
		if _, wrong := errors.AsType[cli.Mistake](err); err == nil || wrong {
			return err
		}
		if _, exit := errors.AsType[cli.Exit](err); exit {
			return err
		}
		return errors.New(c.scrub(err.Error()))
	}
}

// printJSON prints what -o json asks for.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// options are the flags of all subcommands.
type options struct {
	selection
	printOnly bool
	newIssuer bool
	limit     int
	resource  string
	schemas   string
	accept    string
	force     bool
	yes       bool
	withData  bool
}

// flags declares the flags of a subcommand.
func flags(all ...func(*flag.FlagSet)) func(*flag.FlagSet) {
	return func(f *flag.FlagSet) {
		for _, declare := range all {
			declare(f)
		}
	}
}

func (o *options) print(f *flag.FlagSet) {
	f.BoolVar(&o.printOnly, "print", false, "print the SQL or the commands; change nothing")
}

func (o *options) issuer(f *flag.FlagSet) {
	f.BoolVar(&o.newIssuer, "new-issuer", false,
		"the coordinator was restored from a backup, so its tokens cannot be compared with earlier ones")
}

func (o *options) limited(f *flag.FlagSet) {
	f.IntVar(&o.limit, "limit", -1, "at most `N` marks of a store, 0 for all (default: 100 in a "+
		"table, all in JSON)")
}

func (o *options) sealed(f *flag.FlagSet) {
	f.StringVar(&o.resource, "resource", "",
		"the resource `R` under whose mark the tables take writes")
}

func (o *options) inSchemas(f *flag.FlagSet) {
	f.StringVar(&o.schemas, "schema", "", "`S,…`: schemas; check without it looks at those with "+
		"sealed tables")
}

func (o *options) accepted(f *flag.FlagSet) {
	f.StringVar(&o.accept, "accept", "", "`ID[:OBJECT],…`: findings that are known and fine")
}

func (o *options) removing(f *flag.FlagSet) {
	f.BoolVar(&o.yes, "yes", false, "remove it; without this flag nothing is changed")
	f.BoolVar(&o.withData, "with-data", false, "also remove checkpoints, jobs and other documents")
}

func (o *options) forced(f *flag.FlagSet) {
	f.BoolVar(&o.force, "force", false, "also if sessions are admitted now that would be refused")
}

// operator names the person who runs an administrative command.
func operator(host string) string {
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}
