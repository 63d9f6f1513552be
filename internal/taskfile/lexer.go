package taskfile

import "strings"

// lexer takes SQL apart as psql does: into statements and their words outside of quotes and comments.
type lexer struct {
	text   string
	at     int
	open   string // what did not end, if anything
	openAt int
}

// statement is one, up to its semicolon.
type statement struct {
	offset int      // of its first word
	words  []string // in lower case, the first few dozen
	filled bool     // there is something in it
	last   bool     // the text ends with it
	stdin  bool     // FROM STDIN stands in it

	word           string // the latest
	parens, bodies int
}

const mostWords = 64

func (l *lexer) statement() statement {
	var s statement
	for l.open == "" && l.at < len(l.text) {
		c := l.text[l.at]
		switch {
		case c == ';' && s.parens <= 0 && s.bodies <= 0:
			l.at++
			return s
		case strings.IndexByte(" \t\r\n\f\v", c) >= 0, l.comment():
			l.at++
		case wordStart(c):
			offset := l.at
			s.add(offset, l.word())
		default:
			l.symbol(&s, c)
		}
	}
	s.last = true
	return s
}

// comment passes over one, but for its last byte.
func (l *lexer) comment() bool {
	rest := l.text[l.at:]
	switch {
	case strings.HasPrefix(rest, "--"):
		if end := strings.IndexAny(rest, "\r\n"); end >= 0 {
			l.at += end
		} else {
			l.at = len(l.text) - 1
		}
		return true
	case strings.HasPrefix(rest, "/*"):
		l.block()
		return true
	}
	return false
}

// block passes over a comment in which others may stand.
func (l *lexer) block() {
	start, depth := l.at, 0
	for l.at < len(l.text) {
		switch rest := l.text[l.at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			l.at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			l.at += 2
			if depth == 0 {
				l.at--
				return
			}
		default:
			l.at++
		}
	}
	l.open, l.openAt = "comment", start
}

// word reads one, and the quotes that belong to it: E'…'.
func (l *lexer) word() string {
	start := l.at
	for l.at < len(l.text) && wordPart(l.text[l.at]) {
		l.at++
	}
	word := strings.ToLower(l.text[start:l.at])
	if word == "e" && l.at < len(l.text) && l.text[l.at] == '\'' {
		l.quoted('\'', true)
	}
	return word
}

// symbol passes over whatever is no word.
func (l *lexer) symbol(s *statement, c byte) {
	if !s.filled {
		s.offset, s.filled = l.at, true
	}
	switch c {
	case '\'', '"':
		l.quoted(c, false)
		return
	case '$':
		l.dollar()
		return
	case '(':
		s.parens++
	case ')':
		s.parens--
	}
	l.at++
}

// quoted passes over '…' or "…", in which the quote itself is doubled.
func (l *lexer) quoted(quote byte, escapes bool) {
	start := l.at
	for l.at++; l.at < len(l.text); l.at++ {
		switch c := l.text[l.at]; {
		case c == '\\' && escapes:
			l.at++
		case c == quote:
			l.at++
			if l.at == len(l.text) || l.text[l.at] != quote {
				return
			}
		}
	}
	l.at = len(l.text)
	l.open, l.openAt = "quote", start
}

// dollar passes over $…$ text $…$, or over a single $ such as that of $1.
func (l *lexer) dollar() {
	start, end := l.at, l.at+1
	for end < len(l.text) && wordPart(l.text[end]) && l.text[end] != '$' {
		end++
	}
	if end == len(l.text) || l.text[end] != '$' || digit(l.text[start+1]) {
		l.at++
		return
	}
	tag := l.text[start : end+1]
	length := strings.Index(l.text[end+1:], tag)
	if length < 0 {
		l.at = len(l.text)
		l.open, l.openAt = "quote "+tag, start
		return
	}
	l.at = end + 1 + length + len(tag)
}

func wordStart(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

func wordPart(c byte) bool { return wordStart(c) || digit(c) || c == '$' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

// add takes note of a word. The semicolons in a function's BEGIN ATOMIC … END do not end the statement.
func (s *statement) add(offset int, word string) {
	if !s.filled {
		s.offset, s.filled = offset, true
	}
	if len(s.words) < mostWords {
		s.words = append(s.words, word)
	}
	s.stdin = s.stdin || s.word == "from" && word == "stdin"
	s.word = word
	if s.words[0] != "create" || !contains(s.words, "function") && !contains(s.words, "procedure") {
		return
	}
	switch {
	case word == "begin", word == "case" && s.bodies > 0:
		s.bodies++
	case word == "end" && s.bodies > 0:
		s.bodies--
	}
}
