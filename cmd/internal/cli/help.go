package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/settings"
)

// Help holds the parts of a program's help.
type Help struct {
	About     string // what the program is for, in one line
	Settings  any    // a pointer to a struct, as settings.Load takes it
	ExitCodes string
}

// help prints the subcommands, the settings and the exit codes.
func (p *Program[C]) help() int {
	var b strings.Builder
	b.WriteString(p.Help.About + "\n\n")
	all := p.all()
	width := 0
	for _, c := range all {
		width = max(width, len(c.Name))
	}
	for _, c := range all {
		fmt.Fprintf(&b, "  %s %-*s  %s\n", p.Name, width, c.Name, c.Summary)
	}
	fmt.Fprintf(&b, "\n`%s COMMAND -h` has the arguments of a command.\n\nSettings, from the "+
		"environment:\n", p.Name)
	if err := settings.Help(&b, p.Help.Settings); err != nil {
		return Error
	}
	fmt.Fprintf(&b, "\n%s", p.Help.ExitCodes)
	return p.print(b.String())
}

// helpOn prints the page of one subcommand.
func (p *Program[C]) helpOn(c Command[C]) int {
	return p.print(fmt.Sprintf("%s\n\n%s\n`%s -h` lists every setting, and the exit codes.\n",
		p.usage(c), c.about(), p.Name))
}

// about says what a subcommand does, and lists its flags.
func (c Command[C]) about() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n", strings.ToUpper(c.Summary[:1])+c.Summary[1:])
	if c.More != "" {
		b.WriteString("\n" + c.More)
	}
	var a Arguments
	if flags := listFlags(c.flagSet(&a)); flags != "" {
		b.WriteString("\n" + flags)
	}
	return b.String()
}

// all returns the subcommands of the program, and those that every program has.
func (p *Program[C]) all() []Command[C] {
	return append(slices.Clone(p.Commands),
		Command[C]{Name: "version", Summary: "print the version of this program"},
		Command[C]{
			Name: "completion", Arguments: "bash|zsh|fish", Summary: "print what completes commands and " +
				"flags in a shell",
		},
		Command[C]{Name: "manual", Summary: "print the manual page, for man -l -"})
}

func (p *Program[C]) print(text string) int {
	if _, err := io.WriteString(p.Stdout, text); err != nil {
		return Error
	}
	return Done
}

func (p *Program[C]) usage(c Command[C]) string {
	return strings.TrimSpace(strings.Join([]string{p.Name, c.Name, c.Arguments}, " "))
}

// listFlags describes flags. The usage of a flag has the name of its value in back quotes, and may
// begin with it and a colon.
func listFlags(set *flag.FlagSet) string {
	const indent, width = 20, 100
	var b strings.Builder
	set.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		usage = strings.TrimPrefix(usage, value+": ")
		name := "--" + f.Name
		if len(f.Name) == 1 {
			name = "-" + f.Name
		}
		name = strings.TrimSpace(name + " " + value)
		for i, line := range settings.Wrap(usage, width-indent) {
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(&b, "  %-*s %s\n", indent-3, name, line)
		}
	})
	return b.String()
}

// mistake reports a usage error: the correct usage of a subcommand and of those whose names begin
// with its name, or one line if the arguments name none.
func (p *Program[C]) mistake(name string, err error) int {
	if name == "" {
		fmt.Fprintf(p.Stderr, "%s: %v; `%s -h` lists them\n", p.Name, err, p.Name)
		return Usage
	}
	fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
	for _, c := range p.Commands {
		if c.Name == name || strings.HasPrefix(c.Name, name+" ") {
			fmt.Fprintf(p.Stderr, "  %s\n", p.usage(c))
		}
	}
	fmt.Fprintf(p.Stderr, "`%s %s -h` says more.\n", p.Name, name)
	return Usage
}
