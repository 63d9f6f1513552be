package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// printer prints the demo, in colour on a terminal.
type printer struct {
	w        io.Writer
	terminal bool
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

const (
	bold  = "1"
	red   = "31;1"
	green = "32;1"
	grey  = "90"
)

func (p printer) paint(colour, text string) string {
	if !p.terminal {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p printer) title(text string) { fmt.Fprintf(p.w, "\n%s\n\n", p.paint(bold, text)) }

// progress shows the current activity, on a terminal only.
func (p printer) progress(text string) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K  %s", p.paint(grey, text))
	}
}

func (p printer) done(text string) {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintf(p.w, "  %s\n", text)
}

func (p printer) act(number, text string) {
	fmt.Fprintf(p.w, "\n%s\n\n", p.paint(bold, number+". "+text))
}

func (p printer) line(who, what, text string) {
	fmt.Fprintf(p.w, "  %-2s %-9s %s\n", who, what, text)
}

func (p printer) remark(text string) { p.line("", "", p.paint(grey, text)) }

func (p printer) event(who string, e event) {
	switch e.What {
	case "elected":
		p.line(who, "elected", "token "+e.Token.String())
	case "read":
		p.line(who, "reads", fmt.Sprintf("balance %d", e.Balance))
	case "paused":
		p.line(who, "checks", "that it still leads: yes")
		p.line(who, "PAUSED", fmt.Sprintf("(SIGSTOP) right before it writes %d", e.Balance))
	case "wrote":
		p.line(who, "writes", fmt.Sprintf("%d to %s", e.Balance, e.Database))
	case "refused":
		p.refused(who, e)
	default:
		p.line(who, e.What, e.Text)
	}
}

// refused prints the guard's refusal: for Postgres all three parts, for Redis only the message.
func (p printer) refused(who string, e event) {
	message, rest, _ := strings.Cut(e.Text, "\n")
	message, _, _ = strings.Cut(message, " — ") // Redis has all parts in one line
	p.line(who, p.paint(green, "REFUSED")+"  ", "by "+e.Database+": "+message)
	if e.Database != "Postgres" {
		return
	}
	for line := range strings.Lines(rest) {
		p.line("", "", p.paint(grey, strings.TrimSpace(line)))
	}
}

func (p printer) balance(o outcome) {
	text := fmt.Sprintf("Postgres holds %d, Redis holds %d, right is %d: ", o.postgres, o.redis,
		o.want)
	if o.corrupt() {
		fmt.Fprintf(p.w, "\n  => %s%s\n", text, p.paint(red, "CORRUPTED, B's write is lost"))
		return
	}
	fmt.Fprintf(p.w, "\n  => %s%s\n", text, p.paint(green, "correct"))
}

func (p printer) console(command, output string) {
	fmt.Fprintf(p.w, "\n  $ %s\n", command)
	for line := range strings.Lines(output) {
		fmt.Fprintf(p.w, "  %s", line)
	}
}

func (p printer) verdict(without, with outcome) {
	word := map[bool]string{true: p.paint(red, "corrupted"), false: p.paint(green, "correct")}
	fmt.Fprintf(p.w, "\n%s without the guard %s, through the guard %s.\n\n",
		p.paint(bold, "The same pause:"), word[without.corrupt()], word[with.corrupt()])
	fmt.Fprint(p.w,
		"Next, one Postgres of your own is enough: it is guarded, and it holds the elections.\n"+
			"docs/first-steps.md has the commands for bin/guard and bin/leader.\n\n")
}
