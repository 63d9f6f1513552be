package main

import (
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/settings"
)

const exitCodes = `Exit codes:
  0    done
  1    error; for status and resign also: nobody leads; for task also: the task is stopped
  2    wrong usage, settings or task file
  3    leadership was lost or the token is stale, and the command was stopped for it. (task stands for election again
       instead, for as long as that can help)
  else of run: the command's own; 128 + n when signal n ended it, or ended leader before the command was started.
       Of task: 128 + n when signal n ended it; the next copy goes on
`

const childGets = `The command gets RINGFENCE_RESOURCE, RINGFENCE_TOKEN and RINGFENCE_HOLDER, and PGOPTIONS with the token added, so that
every libpq program in it is fenced as it is. It is started once the mark is raised on every store. It runs in a process
group of its own; TERM, INT, HUP, QUIT, USR1, USR2 and WINCH are passed on to that group, and a second TERM or INT, once
it was told to stop, kills it. On a terminal it is in the foreground; Ctrl-Z is off, since a stopped leader would hold
the resource and do nothing. When it ends, what is left of its group is killed, and the next candidate is let in.
`

// help prints the whole surface: subcommands, settings, exit codes.
func (p *program) help() int {
	var b strings.Builder
	b.WriteString("leader runs a command or a task as the leader of a resource, and tells how elections stand.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  leader %-12s %-34s %s\n", c.name, c.arguments, c.summary)
	}
	return p.print(&b)
}

func (p *program) helpOn(c command) int {
	var b strings.Builder
	fmt.Fprintf(&b, "leader %s %s\n\n%s.\n", c.name, c.arguments, strings.ToUpper(c.summary[:1])+c.summary[1:])
	switch {
	case c.name == "run":
		b.WriteString("\n" + childGets)
	case c.name == "task":
		b.WriteString("\n" + taskForm)
	case c.takes != takesResource:
		b.WriteString("\n" + taskNames)
	}
	return p.print(&b)
}

func (p *program) print(b *strings.Builder) int {
	b.WriteString("\nSettings, from the environment:\n")
	if err := settings.Help(b, &config{}); err != nil {
		return cli.Error
	}
	fmt.Fprintf(b, "\n%s", exitCodes)
	if _, err := p.stdout.Write([]byte(b.String())); err != nil {
		return cli.Error
	}
	return cli.Done
}

// usage tells of a mistake in the arguments, of subcommand name or of none.
func (p *program) usage(name string, err error) int {
	fmt.Fprintf(p.stderr, "leader: %v\n", err)
	for _, c := range commands() {
		if name == "" || name == c.name || name == "task" && c.takes != takesResource {
			fmt.Fprintf(p.stderr, "  leader %s %s\n", c.name, c.arguments)
		}
	}
	fmt.Fprintf(p.stderr, "`leader -h` says more.\n")
	return cli.Usage
}
