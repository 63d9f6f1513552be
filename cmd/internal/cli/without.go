//go:build !manual

package cli

import "github.com/spf13/cobra"

// manual returns no command: a program for users writes no manual pages.
func (*Program) manual() []*cobra.Command { return nil }
