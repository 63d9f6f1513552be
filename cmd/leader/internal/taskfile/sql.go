package taskfile

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// sql reads statements from the task file itself.
func (r *reader) sql(n *yaml.Node) *SQL {
	text := r.text(n, "sql")
	if text == "" {
		return nil
	}
	s := &SQL{Text: text, File: r.path}
	switch literal := real(n).Style&yaml.LiteralStyle != 0; {
	case literal:
		s.Line = real(n).Line + 1 // the text begins below the |
	case !strings.Contains(text, "\n"):
		s.Line = real(n).Line
	}
	r.check(s, real(n))
	return s
}

// sqlFile reads statements from another file. Its path is relative to the task file.
func (r *reader) sqlFile(n *yaml.Node) *SQL {
	name := r.text(n, "sql_file")
	if name == "" {
		return nil
	}
	text, err := r.open(name)
	if err != nil {
		r.at(n, "sql_file: %v", err)
		return nil
	}
	if !utf8.Valid(text) || strings.ContainsRune(string(text), 0) {
		r.at(n, "sql_file: %s is not UTF-8 text", name)
		return nil
	}
	s := &SQL{Text: string(text), File: name, Line: 1}
	r.check(s, n)
	return s
}

// check reports what a transaction that is not the step's own must not be given.
func (r *reader) check(s *SQL, n *yaml.Node) {
	for _, m := range examine(s.Text) {
		at := r.position(n)
		if s.Line > 0 {
			at = Position{File: s.File, Line: s.LineAt(m.offset)}
		}
		r.problems = append(r.problems, Problem{At: at, What: m.what})
	}
}

// LineAt returns the line of the file that contains the byte at offset, or 0 if it is unknown.
func (s *SQL) LineAt(offset int) int {
	if s.Line == 0 {
		return 0
	}
	return s.Line + strings.Count(s.Text[:min(max(offset, 0), len(s.Text))], "\n")
}
