package taskfile

import (
	"slices"
	"strings"
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
	l := &lexer{text: text}
	statements := 0
	for {
		s := l.statement()
		if s.filled {
			statements++
		}
		if what := s.forbidden(); what != "" {
			found = append(found, mistake{s.offset, what})
		}
		if l.open != "" {
			return append(found, mistake{l.openAt, "the " + l.open + " that begins here does not end"})
		}
		if s.last {
			break
		}
	}
	if statements == 0 {
		found = append(found, mistake{0, "it contains no SQL statement"})
	}
	return found
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
