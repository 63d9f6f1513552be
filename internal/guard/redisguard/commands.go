package redisguard

import (
	_ "embed"
	"fmt"
	"iter"
	"strings"
)

// commandTable has a line for each command that the guard knows, and explains itself.
//
//go:embed commands.txt
var commandTable string

// rule is what the guard does with a command, as its lines in commands.txt say.
type rule struct {
	early   bool   // it passes before the token, too
	refused bool   // it never passes
	module  bool   // the server runs it by a module that is built into it
	effect  effect // what the relay must know about it
	note    string // why it is refused
	forms   []form
	subs    map[string]*rule // of a command with subcommands, by their names; nil for the others
}

// form is a word among a command's arguments with which the command is refused.
type form struct{ word, why string }

// effect is what a command that passes does to a transaction or to the session.
type effect int

const (
	noEffect          effect = iota
	opensTransaction         // MULTI
	closesTransaction        // EXEC, DISCARD, RESET
	endsSession              // QUIT
	silences                 // CLIENT REPLY
	mayClaim                 // FENCE, HELLO, CLIENT SETNAME
)

var effects = map[string]effect{
	"opens": opensTransaction, "closes": closesTransaction, "quits": endsSession, "silences": silences,
	"claims": mayClaim,
}

// rules are the commands without their subcommands, by name.
var rules = parseTable(commandTable)

// parseTable panics if the table is wrong: it is part of the program.
func parseTable(table string) map[string]*rule {
	all := make(map[string]*rule)
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		effects, note, _ := strings.Cut(strings.TrimSpace(rest), " ")
		add(all, name).parse(effects, strings.TrimSpace(note))
	}
	return all
}

// add returns the rule for a name, which it adds if there is none.
func add(all map[string]*rule, name string) *rule {
	command, sub, isSub := strings.Cut(name, "|")
	r := all[command]
	if r == nil {
		r = &rule{}
		all[command] = r
	}
	if !isSub {
		return r
	}
	if r.subs == nil {
		r.subs = make(map[string]*rule)
	}
	return add(r.subs, sub)
}

func (r *rule) parse(words, note string) {
	for word := range strings.SplitSeq(words, ",") {
		if with, ok := strings.CutPrefix(word, "with:"); ok {
			r.forms = append(r.forms, form{with, note})
			continue
		}
		switch word {
		case "passes":
		case "early":
			r.early = true
		case "refused":
			r.refused = true
		case "module":
			r.module = true
		default:
			e, ok := effects[word]
			if !ok {
				panic(fmt.Sprintf("commands.txt: %q is no effect", word))
			}
			r.effect = e
		}
		r.note = note
	}
}

// passing returns the commands of the table of which some form passes.
func passing() iter.Seq2[string, *rule] {
	return func(yield func(string, *rule) bool) {
		for name, r := range rules {
			if passes := !r.refused || r.subs != nil; passes && name != "FENCE" && !yield(name, r) {
				return
			}
		}
	}
}

// Most commands of most clients have short names, which are found faster as numbers.
const (
	shortName = 8
	slots     = 1 << 11
)

type slot struct {
	name uint64
	rule *rule
}

// shortRules is a hash table of the commands with short names. A slot that is taken has its like
// behind it.
var shortRules = func() (all [slots]slot) {
	for name, r := range rules {
		if len(name) <= shortName {
			n := number([]byte(name))
			at := hash(n)
			for all[at].rule != nil {
				at = (at + 1) % slots
			}
			all[at] = slot{n, r}
		}
	}
	return all
}()

// number is a short name in upper case, as a number. Names of other lengths have other numbers,
// unless they begin with zero bytes.
func number(name []byte) (n uint64) {
	for _, c := range name {
		if c-'a' <= 'z'-'a' {
			c -= 'a' - 'A'
		}
		n = n<<8 | uint64(c)
	}
	return n
}

func hash(n uint64) uint64 { return n * 0x9e3779b97f4a7c15 >> 53 }

// ruleOf returns the rule for a command by its name alone; nil if the table has none. It compares
// names exactly, so a zero byte makes another name of it.
func ruleOf(name []byte) *rule {
	if len(name) > shortName {
		return lookUp(rules, name)
	}
	if len(name) == 0 || name[0] == 0 {
		return nil
	}
	n := number(name)
	for at := hash(n); ; at = (at + 1) % slots {
		if s := &shortRules[at]; s.name == n || s.rule == nil {
			return s.rule
		}
	}
}

// lookUp finds a name in any case.
func lookUp(all map[string]*rule, name []byte) *rule {
	var buf [24]byte
	if len(name) > len(buf) {
		return nil
	}
	return all[string(upper(buf[:0], name))]
}

// ruleFor returns the rule for a command with its subcommand; nil if the table has none.
func ruleFor(args [][]byte) *rule {
	r := ruleOf(args[0])
	if r == nil || r.subs == nil || len(args) == 1 {
		return r
	}
	return lookUp(r.subs, args[1])
}
