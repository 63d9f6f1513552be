package main

import (
	"errors"
	"flag"
	"fmt"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
)

// request holds the parsed arguments.
type request struct {
	resource fence.Resource
	task     taskRef
	output   string   // table or json
	command  []string // to run as the leader
	again    bool     // stand for election again after a lost term
	jobs     jobsRequest
	listen   string // of serve and agent
}

// againFlag declares --again.
func (r *request) againFlag(f *flag.FlagSet) {
	f.BoolVar(&r.again, "again", false, "stand for election again after a lost term")
}

// parse reads the arguments after the subcommand.
func (c command) parse(a cli.Arguments, r *request) (err error) {
	r.output, r.command = a.Output, a.Rest
	names, dashed := a.Names, a.Dashed
	switch {
	case c.takes == takesGroup:
		return c.parseGroup(names, dashed, r)
	case c.takes == takesAddress:
		return c.parseListen(names, dashed, r)
	case c.takes == takesAgent:
		return c.parseAgent(names, dashed, r)
	case c.takes != takesResource:
		r.task, err = c.parseTask(names, dashed)
		return err
	case len(names) == 0:
		return errors.New("RESOURCE is missing")
	case len(names) > 1 && c.name == "run" && !dashed:
		return fmt.Errorf("put -- before the command: leader run %s -- %s", names[0], names[1])
	case len(names) > 1:
		return fmt.Errorf("%q is one argument too many", names[1])
	case c.name == "run" && len(r.command) == 0:
		return errors.New("the command is missing: leader run RESOURCE -- COMMAND")
	case c.name != "run" && dashed:
		return fmt.Errorf("%s takes no command", c.name)
	}
	r.resource, err = fence.ParseResource(names[0])
	return err
}
