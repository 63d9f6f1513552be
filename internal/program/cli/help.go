package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/ringfence/ringfence/internal/program/settings"
)

// Help holds the parts of a program's help, and how to show them.
type Help struct {
	About     string // what the program is for, in one line
	Settings  any    // a pointer to a struct, as settings.Load takes it
	ExitCodes string
	Columns   [2]int // the widths of the subcommands' names and arguments

	// Whole makes -h of a subcommand, and a usage error, show all subcommands with their summaries
	// instead of that one alone.
	Whole bool
}

// help prints the subcommands, the settings and the exit codes.
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
	summary := strings.ToUpper(c.Summary[:1]) + c.Summary[1:]
	fmt.Fprintf(&b, "%s %s %s\n\n%s.\n", p.Name, c.Name, c.Arguments, summary)
	if c.More != "" {
		b.WriteString("\n" + c.More)
	}
	return p.print(&b)
}

// print prints the text, the settings and the exit codes.
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

// list prints a line for each subcommand.
func (p *Program[C]) list(w io.Writer) {
	for _, c := range p.Commands {
		names, arguments := p.Help.Columns[0], p.Help.Columns[1]
		fmt.Fprintf(w, "  %s %-*s %-*s %s\n", p.Name, names, c.Name, arguments, c.Arguments, c.Summary)
	}
}

// mistake reports a usage error and shows the correct usage. name is "" without a subcommand.
func (p *Program[C]) mistake(name string, err error) int {
	fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err)
	if p.Help.Whole {
		p.list(p.Stderr)
	} else {
		p.shortList(name)
	}
	about := p.Name
	if name != "" && !p.Help.Whole {
		about += " " + name
	}
	fmt.Fprintf(p.Stderr, "`%s -h` says more.\n", about)
	return Usage
}

// shortList prints the usage of a subcommand and of those whose names begin with its name. For ""
// it prints all of them.
func (p *Program[C]) shortList(name string) {
	for _, c := range p.Commands {
		if name == "" || c.Name == name || strings.HasPrefix(c.Name, name+" ") {
			fmt.Fprintf(p.Stderr, "  %s %s %s\n", p.Name, c.Name, c.Arguments)
		}
	}
}
