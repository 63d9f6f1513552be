package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/fence"
)

// apart splits arguments at "--": behind it is a command, with its own flags.
func apart(c *cobra.Command, args []string) (names, command []string) {
	if at := c.ArgsLenAtDash(); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
}

// forCommand checks the arguments of a command that takes NAME -- COMMAND, and keeps the command.
func (inv *invocation) forCommand(c *cobra.Command, args []string) error {
	names, command := apart(c, args)
	switch {
	case len(names) > 1 && c.ArgsLenAtDash() < 0:
		return fmt.Errorf("put -- before the command: %s %s -- %s", c.CommandPath(), names[0], names[1])
	case len(names) > 1:
		return fmt.Errorf("%q is one argument too many", names[1])
	case len(names) == 0:
		return errors.New("an argument is missing before --")
	}
	inv.command = command
	return nil
}

// ofResource reads the argument that names a resource.
func (inv *invocation) ofResource(_ *cobra.Command, args []string) (err error) {
	inv.resource, err = fence.ParseResource(args[0])
	return err
}
