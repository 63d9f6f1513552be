package cli

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// complete prints the completion for a shell. Where no subcommand or flag fits, the shell completes
// the names of files.
func (p *Program[C]) complete(args []string) int {
	shells := map[string]func() string{"bash": p.bash, "zsh": p.zsh, "fish": p.fish}
	if len(args) != 1 || shells[args[0]] == nil {
		return p.mistake("", errors.New("completion takes bash, zsh or fish"))
	}
	return p.print(shells[args[0]]())
}

// choice is a word that can come next.
type choice struct {
	word    string
	about   string
	valued  bool // a flag that takes a value
	command bool
}

// after returns what can follow the words of a subcommand, or of none: words of longer names, and
// flags.
func (p *Program[C]) after(name string) (all []choice) {
	for _, c := range p.all() {
		rest, longer := strings.CutPrefix(c.Name, strings.TrimLeft(name+" ", " "))
		if !longer {
			continue
		}
		word, more, _ := strings.Cut(rest, " ")
		if more == "" {
			all = append(all, choice{word: word, about: c.Summary, command: true})
		}
	}
	for _, c := range p.Commands {
		if c.Name != name {
			continue
		}
		var a Arguments
		c.flagSet(&a).VisitAll(func(f *flag.Flag) {
			dashes := "--"
			if len(f.Name) == 1 {
				dashes = "-"
			}
			value, usage := flag.UnquoteUsage(f)
			is, ok := f.Value.(interface{ IsBoolFlag() bool })
			all = append(all, choice{
				word: dashes + f.Name, about: strings.TrimPrefix(usage, value+": "), valued: !ok ||
					!is.IsBoolFlag(),
			})
		})
	}
	return all
}

// names returns the subcommands, longer names first, so that the first one that the words begin
// with is the one that is meant.
func (p *Program[C]) names() (names []string) {
	for _, c := range p.all() {
		names = append(names, c.Name)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Count(b, " ") - strings.Count(a, " ")
	})
	return names
}

func (p *Program[C]) bash() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# bash completion for %[1]s: source <(%[1]s completion bash)\n_%[1]s() {\n",
		p.Name)
	b.WriteString("  local next= line=\" ${COMP_WORDS[*]:1:COMP_CWORD-1} \"\n  case $line in\n    " +
		"*' -- '*) ;;\n")
	for _, name := range p.names() {
		fmt.Fprintf(&b, "    ' %s '*) next='%s' ;;\n", name, words(p.after(name)))
	}
	fmt.Fprintf(&b, "    *) next='%s' ;;\n  esac\n", words(p.after("")))
	fmt.Fprintf(&b, "  COMPREPLY=($(compgen -W \"$next\" -- "+
		"\"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _%[1]s %[1]s\n", p.Name)
	return b.String()
}

func words(all []choice) string {
	var list []string
	for _, c := range all {
		list = append(list, c.word)
	}
	return strings.Join(list, " ")
}

func (p *Program[C]) zsh() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %[1]s\n# zsh completion for %[1]s: source <(%[1]s completion "+
		"zsh)\n_%[1]s() {\n", p.Name)
	b.WriteString("  local -a next\n  local line=\" ${words[2,CURRENT-1]} \"\n  case $line in\n    " +
		"*' -- '*) ;;\n")
	for _, name := range p.names() {
		fmt.Fprintf(&b, "    ' %s '*) next=(%s) ;;\n", name, described(p.after(name)))
	}
	fmt.Fprintf(&b, "    *) next=(%s) ;;\n  esac\n", described(p.after("")))
	fmt.Fprintf(&b, "  _describe 'command or flag' next || _files\n}\nif [ \"$funcstack[1]\" = "+
		"_%[1]s ]; then _%[1]s; else compdef _%[1]s %[1]s; fi\n", p.Name)
	return b.String()
}

// described lists choices as _describe of zsh takes them.
func described(all []choice) string {
	var list []string
	for _, c := range all {
		list = append(list, quoted(strings.ReplaceAll(c.word, ":", `\:`)+":"+c.about))
	}
	return strings.Join(list, " ")
}

func (p *Program[C]) fish() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# fish completion for %[1]s: %[1]s completion fish | source\n", p.Name)
	for _, name := range append([]string{""}, p.names()...) {
		for _, c := range p.after(name) {
			fmt.Fprintf(&b, "complete -c %s -n %s %s -d %s\n", p.Name, quoted(p.seen(name)), c.fish(),
				quoted(c.about))
		}
	}
	return b.String()
}

// seen is the condition of fish that the words are of a subcommand, and of none with a longer name.
func (p *Program[C]) seen(name string) string {
	if name == "" {
		return "__fish_use_subcommand"
	}
	var parts []string
	for word := range strings.FieldsSeq(name) {
		parts = append(parts, "__fish_seen_subcommand_from "+word)
	}
	longer := ""
	for _, c := range p.after(name) {
		if c.command {
			longer += " " + c.word
		}
	}
	if longer != "" {
		parts = append(parts, "not __fish_seen_subcommand_from"+longer)
	}
	return strings.Join(parts, "; and ")
}

func (c choice) fish() string {
	switch {
	case c.command:
		return "-f -a " + c.word
	case strings.HasPrefix(c.word, "--") && c.valued:
		return "-r -l " + c.word[2:]
	case strings.HasPrefix(c.word, "--"):
		return "-l " + c.word[2:]
	}
	return "-r -s " + c.word[1:]
}

// quoted quotes a text for any of the shells.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'" }
