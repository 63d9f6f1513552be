package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/ringfence/ringfence/internal/settings"
)

// Help is the parts of a program's help, and how they are shown.
type Help struct {
	About     string // what the program is for, in a line
	Settings  any    // a pointer to a struct, as settings.Load takes it
	ExitCodes string
	Columns   [2]int // the widths of the subcommands' names and arguments

	// Whole has -h of a subcommand, and a mistake, show all subcommands with their summaries, not
	// that one alone.
	Whole bool
}

// help prints the whole surface: subcommands, settings, exit codes.
func (p *Program[C]) help() int {
	var b strings.Builder
	b.WriteString(p.Help.About + "\n\n")
	p.list(&b)
	return p.print(&b)
}

func (p *Program[C]) helpOn(c Command[C]) int {
	if p.Help.Whole {
		return p.help()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n\n%s.\n", p.Name, c.Name, c.Arguments, strings.ToUpper(c.Summary[:1])+c.Summary[1:])
	if c.More != "" {
		b.WriteString("\n" + c.More)
	}
	return p.print(&b)
}

// print adds what every help ends with.
func (p *Program[C]) print(b *strings.Builder) int {
	b.WriteString("\nSettings, from the environment:\n")
	if err := settings.Help(b, p.Help.Settings); err != nil {
		return Error
	}
	fmt.Fprintf(b, "\n%s", p.Help.ExitCodes)
	if _, err := io.WriteString(p.Stdout, b.String()); err != nil {
		return Error
	}
	return Done
}

// list prints a line on each subcommand.
func (p *Program[C]) list(w io.Writer) {
	for _, c := range p.Commands {
		fmt.Fprintf(w, "  %s %-*s %-*s %s\n", p.Name, p.Help.Columns[0], c.Name, p.Help.Columns[1], c.Arguments, c.Summary)
	}
}

// mistake tells of a wrong usage of a subcommand, or of none, and shows what is right.
func (p *Program[C]) mistake(name string, err error) int {
	fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
	if p.Help.Whole {
		p.list(p.Stderr)
	} else {
		p.shortList(name)
	}
	fmt.Fprintf(p.Stderr, "`%s -h` says more.\n", p.Name)
	return Usage
}

// shortList prints a subcommand, and those whose names begin with its name; all where there is
// none.
func (p *Program[C]) shortList(name string) {
	for _, c := range p.Commands {
		if name == "" || c.Name == name || strings.HasPrefix(c.Name, name+" ") {
			fmt.Fprintf(p.Stderr, "  %s %s %s\n", p.Name, c.Name, c.Arguments)
		}
	}
}
