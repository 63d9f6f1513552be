package taskfile

import (
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/ringfence/ringfence/checkpoint/unfinished"
)

const one = "a step"

// step reads one item of the list.
func (r *reader) step(n *yaml.Node) Step {
	m := r.mapping(n, one,
		"name", "sql", "sql_file", "run", "redis", "unfinished", "ask", "timeout", "retry")
	if m == nil {
		return Step{}
	}
	s := Step{Name: r.stepName(r.need(m, one, "name")), At: r.position(m.at)}
	s.Timeout, s.Retry = r.duration(m.value("timeout"), "timeout"), r.retry(m.value("retry"))
	kinds := m.given("sql", "sql_file", "run", "redis")
	if len(kinds) != 1 {
		r.at(n, "a step has one of sql, sql_file, run and redis; this one has %s", noneOr(kinds))
		return s
	}
	r.work(m, &s, kinds[0])
	r.unfinished(m, &s, strings.HasPrefix(kinds[0], "sql"))
	return s
}

func (r *reader) stepName(n *yaml.Node) string {
	name := r.text(n, "name")
	if strings.ContainsFunc(name, unicode.IsControl) {
		r.at(n, "name %q has a control character", name)
	}
	return name
}

// given returns the keys that are present.
func (m *mapping) given(keys ...string) (found []string) {
	for _, k := range keys {
		if m.value(k) != nil {
			found = append(found, k)
		}
	}
	return found
}

func noneOr(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " and ")
}

// work reads the step's SQL, command or Redis commands.
func (r *reader) work(m *mapping, s *Step, kind string) {
	n := m.value(kind)
	switch kind {
	case "sql":
		s.SQL = r.sql(n)
	case "sql_file":
		s.SQL = r.sqlFile(n)
	case "run":
		s.Run = r.text(n, "run")
	case "redis":
		s.Redis = r.commands(n)
	}
}

// unfinished reads what to do with a step that has started, if its end is unknown.
func (r *reader) unfinished(m *mapping, s *Step, synchronous bool) {
	n, ask := m.value("unfinished"), m.value("ask")
	if synchronous {
		for _, key := range m.given("unfinished", "ask") {
			r.at(m.value(key),
				"%s is for steps that are not SQL: SQL that did not commit had no effect", key)
		}
		return
	}
	decision := "again"
	if n != nil {
		decision = r.text(n, "unfinished")
	}
	switch decision {
	case "again", "ask", "":
	case "stop":
		s.Unfinished = unfinished.Stop
	default:
		r.at(n, "unfinished is %q, not again, stop or ask", excerpt(decision))
	}
	s.Ask = r.text(ask, "ask")
	switch {
	case decision == "ask" && ask == nil:
		r.at(n, "unfinished is ask, but there is no key ask with the command to run")
	case decision != "ask" && ask != nil:
		r.at(ask, "ask is only for unfinished: ask")
	}
}

// commands reads one command, a list of words, or a list of commands.
func (r *reader) commands(n *yaml.Node) [][]any {
	items := real(n).Content
	if real(n).Kind != yaml.SequenceNode || len(items) == 0 {
		r.at(n, "redis is %s: it has to be a command such as [INCRBY, sent, 10], or a list of commands",
			emptyOr(n))
		return nil
	}
	if real(items[0]).Kind != yaml.SequenceNode {
		return [][]any{r.words(n)}
	}
	var all [][]any
	for _, item := range items {
		all = append(all, r.words(item))
	}
	return all
}

// words reads one command. Words keep their spelling: 007 stays 007.
func (r *reader) words(n *yaml.Node) (words []any) {
	if real(n).Kind != yaml.SequenceNode || len(real(n).Content) == 0 {
		r.at(n, "a Redis command is %s, not a list of words", emptyOr(n))
		return nil
	}
	for i, w := range real(n).Content {
		if real(w).Kind != yaml.ScalarNode || isNull(w) || i == 0 && real(w).Value == "" {
			r.at(w, "word %d of a Redis command is %s", i+1, kind(w))
			continue
		}
		words = append(words, real(w).Value)
	}
	return words
}
