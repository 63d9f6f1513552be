package taskfile

import "strings"

// mistake is something in SQL that is refused before it is run.
type mistake struct {
	offset int // in bytes
	what   string
}

const ownTransaction = "a step is one transaction with its checkpoint, and neither begins nor ends one (SAVEPOINT and ROLLBACK TO are fine)"

// examine looks at the beginning of each statement. It knows quotes and comments, not SQL: what slips through, the
// database refuses when the checkpoint is written.
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
		found = append(found, mistake{0, "there is no SQL statement in it"})
	}
	return found
}

// forbidden says what is wrong with a statement, or nothing.
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
		if !contains(words[1:min(len(words), 3)], "to") {
			return first + ": " + ownTransaction
		}
	case "prepare":
		if contains(words[1:min(len(words), 2)], "transaction") {
			return first + " TRANSACTION: " + ownTransaction
		}
	case "reset":
		if contains(words[1:], "all") {
			return first + " ALL: it would take back what the fence has set; say which settings (each step begins without those of others)"
		}
	case "copy":
		if s.stdin {
			return first + " FROM STDIN: a step has no input to copy from; use INSERT, or psql in a run step"
		}
	}
	return ""
}

func contains(words []string, one string) bool {
	for _, w := range words {
		if w == one {
			return true
		}
	}
	return false
}
