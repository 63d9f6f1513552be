//go:build manual

package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manual returns the command that writes the manual pages. Only scripts/package.sh builds it, since
// no user needs what it links.
func (p *Program) manual() []*cobra.Command {
	return []*cobra.Command{{
		Use: "manual FOLDER", Short: "Write the manual pages", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			root.DisableAutoGenTag = true
			root.Long += "\n\n# ENVIRONMENT\n\n" + verbatim(p.settings()) + "\n# EXIT STATUS\n\n" +
				verbatim(p.ExitCodes)
			plain(root)
			return doc.GenManTree(root, &doc.GenManHeader{
				Source: "Ringfence", Manual: "User commands",
			}, args[0])
		},
	}}
}

// plain replaces what groff takes only if its locale is right.
func plain(c *cobra.Command) {
	for _, text := range []*string{&c.Use, &c.Short, &c.Long} {
		*text = strings.ReplaceAll(*text, "…", "...")
	}
	for _, below := range c.Commands() {
		plain(below)
	}
}

// verbatim is a text in Markdown that keeps its lines.
func verbatim(text string) string {
	return "    " + strings.ReplaceAll(strings.Trim(text, "\n"), "\n", "\n    ") + "\n"
}
