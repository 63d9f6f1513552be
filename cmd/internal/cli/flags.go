package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Output declares -o with these formats. The first one is the default.
func Output(c *cobra.Command, into *string, formats ...string) {
	Choice(c, into, "output", "o", "print it as `FORMAT`: ", formats...)
}

// Choice declares a flag that takes one of some values, and completes it. The first value is the
// default, and "" stands for none.
func Choice(c *cobra.Command, into *string, name, short, usage string, values ...string) {
	*into = values[0]
	values = slices.DeleteFunc(values, func(v string) bool { return v == "" })
	text := strings.Join(values, ", ")
	if last := len(values) - 1; last > 0 {
		text = strings.Join(values[:last], ", ") + " or " + values[last]
	}
	c.Flags().VarP(&choice{into, values, text}, name, short, usage+text)
	_ = c.RegisterFlagCompletionFunc(name,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// choice is the value of a flag.
type choice struct {
	value *string
	all   []string
	text  string // all of them, for people
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return "choice" }

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.all, text) {
		return fmt.Errorf("it takes %s", c.text)
	}
	*c.value = text
	return nil
}

// given is the value of a flag that refuses an empty text: such as that of a variable which was not
// set, and which must not mean the default.
type given struct{ pflag.Value }

// Set implements pflag.Value.
func (g given) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("it is empty: leave the flag out, or give it a value")
	}
	return g.Value.Set(text)
}

func refuseEmpty(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) { f.Value = given{f.Value} })
}
