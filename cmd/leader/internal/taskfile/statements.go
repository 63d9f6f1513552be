package taskfile

import (
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/postgres/pglex"
)

// mistake is SQL that is rejected before it runs.
type mistake struct {
	offset int // in bytes
	what   string
}

const ownTransaction = "a step is one transaction with its checkpoint, and must not begin or " +
	"end one (SAVEPOINT and ROLLBACK TO are allowed)"

// examine looks at the first words of each statement. It knows quotes and comments, not SQL. The
// database refuses the rest when the checkpoint is written.
func examine(text string) (found []mistake) {
	l := pglex.New(text)
	var s statement
	statements := 0
	end := func() {
		if s.filled {
			statements++
		}
		if what := s.forbidden(); what != "" {
			found = append(found, mistake{s.offset, what})
		}
		s = statement{}
	}
	for t := range l.Tokens() {
		if t.Is(pglex.Character, ";") && s.parens <= 0 && s.bodies <= 0 {
			end()
			continue
		}
		s.add(t)
	}
	end()
	if open := l.Unended; open != nil {
		return append(found, mistake{open.At, "the " + open.What + " that begins here does not end"})
	}
	if statements == 0 {
		found = append(found, mistake{0, "it contains no SQL statement"})
	}
	return found
}

// statement is a statement up to its semicolon, which psql finds in the same way.
type statement struct {
	filled bool     // it is not empty
	offset int      // of its first token
	words  []string // outside of quotes, at most maxWords
	stdin  bool     // it contains FROM STDIN

	word           string // the latest
	parens, bodies int
}

const maxWords = 64

// add adds a token. The semicolons in a function's BEGIN ATOMIC … END do not end the statement.
func (s *statement) add(t pglex.Token) {
	if !s.filled {
		s.offset, s.filled = t.At, true
	}
	switch {
	case t.Is(pglex.Character, "("):
		s.parens++
	case t.Is(pglex.Character, ")"):
		s.parens--
	}
	if t.Kind != pglex.Word {
		return
	}
	if len(s.words) < maxWords {
		s.words = append(s.words, t.Text)
	}
	s.stdin = s.stdin || s.word == "from" && t.Text == "stdin"
	s.word = t.Text
	routine := slices.Contains(s.words, "function") || slices.Contains(s.words, "procedure")
	if s.words[0] != "create" || !routine {
		return
	}
	switch {
	case t.Text == "begin", t.Text == "case" && s.bodies > 0:
		s.bodies++
	case t.Text == "end" && s.bodies > 0:
		s.bodies--
	}
}

// forbidden says why a statement is not allowed, or "".
func (s statement) forbidden() string {
	words := s.words
	if len(words) == 0 {
		return ""
	}
	first := strings.ToUpper(words[0])
	switch words[0] {
	case "begin", "start", "commit", "end", "abort":
		return first + ": " + ownTransaction
	case "rollback":
		if !slices.Contains(words[1:min(len(words), 3)], "to") {
			return first + ": " + ownTransaction
		}
	case "prepare":
		if slices.Contains(words[1:min(len(words), 2)], "transaction") {
			return first + " TRANSACTION: " + ownTransaction
		}
	case "reset":
		if slices.Contains(words[1:], "all") {
			return first + " ALL: it would reset the settings of the fence; name the settings to reset " +
				"(each step begins without the settings of others)"
		}
	case "copy":
		if s.stdin {
			return first + " FROM STDIN: a step has no input to copy from; use INSERT, or psql in a run step"
		}
	}
	return ""
}
