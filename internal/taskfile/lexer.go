package taskfile

import (
	"slices"
	"strings"
)

// lexer splits SQL as psql does: into statements, and their words outside of quotes and comments.
type lexer struct {
	text   string
	at     int
	open   string // the quote or comment that did not end, if any
	openAt int
}

// statement is a statement up to its semicolon.
type statement struct {
	offset int      // of its first word
	words  []string // in lower case, at most maxWords
	filled bool     // it is not empty
	last   bool     // the text ends with it
	stdin  bool     // it contains FROM STDIN

	word           string // the latest
	parens, bodies int
}

const maxWords = 64

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

// comment skips a comment except for its last byte.
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

// block skips a comment, which may be nested.
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

// word reads a word, and the string that belongs to it in E'…'.
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

// symbol skips one symbol or quoted text.
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

// quoted skips '…' or "…", in which the quote itself is doubled.
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

// dollar skips $…$ text $…$, or a single $ such as that of $1.
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

// add records a word. The semicolons in a function's BEGIN ATOMIC … END do not end the statement.
func (s *statement) add(offset int, word string) {
	if !s.filled {
		s.offset, s.filled = offset, true
	}
	if len(s.words) < maxWords {
		s.words = append(s.words, word)
	}
	s.stdin = s.stdin || s.word == "from" && word == "stdin"
	s.word = word
	routine := slices.Contains(s.words, "function") || slices.Contains(s.words, "procedure")
	if s.words[0] != "create" || !routine {
		return
	}
	switch {
	case word == "begin", word == "case" && s.bodies > 0:
		s.bodies++
	case word == "end" && s.bodies > 0:
		s.bodies--
	}
}
