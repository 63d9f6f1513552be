package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
)

// program is guard with its dependencies, which tests replace, and the flags of its command.
type program struct {
	cli.Streams
	options options
}

var about = "guard is a proxy for " + labels() + ` that refuses writes of deposed leaders.

Which stores a command is for: --databases names databases of a Postgres server, --all means all of
them, and --server chooses one server, such as archive. Without these flags a command is for the
databases of GUARD_POSTGRES_DATABASES or, if that is not set, for the one of
GUARD_POSTGRES_UPSTREAM; guard status is then for all that have the schema.
`

const exitCodes = `Exit codes: 0 done, 1 error, 2 wrong usage or settings, 4 guard check has found something that
--accept does not name.
`

func (p *program) run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use: "guard", Short: "A proxy that refuses writes of deposed leaders", Long: about,
	}
	root.AddCommand(p.serveCommand(), p.healthCommand(),
		p.installCommand(), p.uninstallCommand(), p.statusCommand(), p.adoptCommand(),
		p.protectCommand(), p.unprotectCommand(), p.checkCommand(),
		p.allowCommand(), p.forbidCommand(), p.authorizeCommand(), p.directCommand())
	cmd := cli.Program{Streams: p.Streams, Root: root, Settings: &config{}, ExitCodes: exitCodes}
	return cmd.Main(ctx, args)
}

// using has a command run with the settings that it uses. It removes their secrets from its errors.
func (p *program) using(
	run func(context.Context, *config, []string) error, uses ...string,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := load(p.Env, uses...)
		if err != nil {
			return err
		}
		logDrivers(logging.New(p.Stderr, c.Log))
		err = run(cmd.Context(), c, args)
		_, wrong := errors.AsType[cli.Mistake](err)
		_, exit := errors.AsType[cli.Exit](err)
		if err == nil || wrong || exit {
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

// options are the flags of all commands.
type options struct {
	selection
	output    string
	printOnly bool
	newIssuer bool
	limit     int
	resource  string
	schemas   string
	accept    string
	force     bool
	trial     bool
	off       bool
	yes       bool
	withData  bool
}

// print declares --print.
func (o *options) print(c *cobra.Command) {
	c.Flags().BoolVar(&o.printOnly, "print", false, "print the SQL or the commands; change nothing")
}

// inSchemas declares --schema.
func (o *options) inSchemas(c *cobra.Command, without string) {
	c.Flags().StringVar(&o.schemas, "schema", "", "these `SCHEMAS`, separated by commas"+without)
}

// operator names the person who runs an administrative command.
func operator(host string) string {
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return host
}

// fits returns a check of the arguments, which otherwise says what the command takes.
func fits(right func(names []string) bool, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if !right(args) {
			return fmt.Errorf("%s takes %s", c.Name(), what)
		}
		return nil
	}
}
