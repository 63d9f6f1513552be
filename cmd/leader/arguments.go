package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/ringfence/ringfence/fence"
)

// request is what the arguments ask for.
type request struct {
	resource fence.Resource
	target   target
	output   string   // table or json
	command  []string // to run as the leader
}

var errHelp = errors.New("help asked for")

// parse reads the arguments behind the subcommand. Flags may stand before and after RESOURCE.
func (c command) parse(args []string) (request, error) {
	r := request{}
	own, dashed := args, false
	if i := slices.Index(args, "--"); i >= 0 {
		own, r.command, dashed = args[:i], args[i+1:], true
	}
	names, err := c.flags(&r, own)
	if err != nil {
		return r, err
	}
	switch {
	case c.takes != takesResource:
		r.target, err = c.parseTask(names, dashed)
		return r, err
	case len(names) == 0:
		return r, errors.New("RESOURCE is missing")
	case len(names) > 1 && c.name == "run" && !dashed:
		return r, fmt.Errorf("put -- before the command: leader run %s -- %s", names[0], names[1])
	case len(names) > 1:
		return r, fmt.Errorf("%q is one argument too many", names[1])
	case c.name == "run" && len(r.command) == 0:
		return r, errors.New("the command is missing: leader run RESOURCE -- COMMAND")
	case c.name != "run" && dashed:
		return r, fmt.Errorf("%s takes no command", c.name)
	}
	r.resource, err = fence.ParseResource(names[0])
	return r, err
}

// flags parses what begins with '-' wherever it stands, and returns the rest.
func (c command) flags(r *request, args []string) (rest []string, err error) {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	if c.output {
		set.StringVar(&r.output, "o", "table", "")
	}
	for len(args) > 0 {
		if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		} else if err != nil {
			return nil, err
		}
		if args = set.Args(); len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	if c.output && r.output != "table" && r.output != "json" {
		return nil, fmt.Errorf("-o is table or json, not %q", r.output)
	}
	return rest, nil
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help", "help"}, arg) }
