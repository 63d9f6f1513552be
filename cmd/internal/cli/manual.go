package cli

import (
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/internal/settings"
)

// manual returns the manual page of the program, in the language of man (7). It has what -h prints
// about the program and about each subcommand.
func (p *Program[C]) manual() string {
	var b strings.Builder
	name := strings.ToUpper(p.Name)
	about := strings.TrimPrefix(strings.TrimPrefix(p.Help.About, p.Name+" "), "is ")
	fmt.Fprintf(&b, ".TH %s 1 \"\" Ringfence \"User commands\"\n.SH NAME\n%s \\- %s\n", name, p.Name,
		roff(strings.TrimSuffix(about, ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I command\n[\n.I arguments\n]\n.SH COMMANDS\n", p.Name)
	for _, c := range p.all() {
		fmt.Fprintf(&b, ".SS %s\n%s", roff(p.usage(c)), verbatim(c.about()))
	}
	var texts strings.Builder
	_ = settings.Help(&texts, p.Help.Settings) // a Builder takes everything
	fmt.Fprintf(&b, ".SH ENVIRONMENT\n%s.SH EXIT STATUS\n%s", verbatim(texts.String()),
		verbatim(p.Help.ExitCodes))
	b.WriteString(".SH SEE ALSO\nhttps://github.com/ringfence/ringfence\n")
	return b.String()
}

// verbatim keeps the lines of a text.
func verbatim(text string) string { return ".nf\n" + roff(text) + ".fi\n" }

var (
	escaped = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...")
	atStart = strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'")
)

// roff escapes a text. A line that begins with a dot or a quote would be a request.
func roff(text string) string {
	return strings.TrimPrefix(atStart.Replace("\n"+escaped.Replace(text)), "\n")
}
