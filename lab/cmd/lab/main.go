// Command lab runs the chaos scenarios, checks their histories and shows what they prove.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `lab tries to get a stale write in, and reports whether it did.

  lab list [-o json]             the scenarios and controls
  lab run NAME…|all|patroni [flags]  run scenarios, check them, write a report of each;
                                 lab run -h lists the flags
  lab controls [NAME…] [flags]   seed each known bug and test that it is caught;
                                 --write FILE updates the table in a file
  lab check HISTORY [-o json]    judge a recorded history
  lab report HISTORY             write report.html and results.json beside it

exit code: 0 valid, 1 invalid, 2 unknown (the run does not count) or not run
`

const (
	exitValid   = 0
	exitInvalid = 1
	exitUnknown = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// program is one invocation.
type program struct{ stdout, stderr io.Writer }

// errUsage matches mistakes on the command line.
var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p := program{stdout, stderr}
	commands := map[string]func(context.Context, []string) (int, error){
		"list": p.list, "run": p.run, "controls": p.controls, "check": p.check, "report": p.report,
	}
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" || args[0] == "help" {
		fmt.Fprint(stdout, usage)
		return exitValid
	}
	do, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "lab: no such command: %s\n\n%s", args[0], usage)
		return exitUnknown
	}
	code, err := do(ctx, args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitValid
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "lab %s: %v; see lab help\n", args[0], err)
		return exitUnknown
	case err != nil:
		fmt.Fprintf(stderr, "lab %s: %v\n", args[0], err)
		return max(code, exitUnknown)
	}
	return code
}

// parse reads flags anywhere among the arguments, and returns the other arguments.
func (p program) parse(flags *flag.FlagSet, args []string) (names []string, err error) {
	flags.SetOutput(p.stderr)
	for {
		if err := flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		if flags.NArg() == 0 {
			return names, nil
		}
		names = append(names, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// json prints a value as JSON.
func (p program) json(v any) error {
	out := json.NewEncoder(p.stdout)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// format defines the flag -o.
func format(flags *flag.FlagSet) *string { return flags.String("o", "table", "table or json") }
