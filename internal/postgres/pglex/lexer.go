// Package pglex splits SQL into tokens as a Postgres server does (src/backend/parser/scan.l).
//
//	l := pglex.New(text)
//	for t := range l.Tokens() {
//		…
//	}
//	if l.Unended != nil { … }
//
// Where versions or settings of the server differ, it goes on as the newest version does with its
// defaults.
package pglex

import (
	"iter"
	"strings"
)

// Token is a word, a quoted thing or a character of a text.
type Token struct {
	Kind Kind
	Text string // of a Word, in lower case; of a Character, itself
	At   int    // where it begins, in bytes
}

// Is reports whether a token is this one.
func (t Token) Is(k Kind, text string) bool { return t.Kind == k && t.Text == text }

// Kind is a kind of token.
type Kind byte

const (
	Word      Kind = iota + 1 // a keyword or an identifier that is not quoted
	Quoted                    // a quoted identifier
	Literal                   // a string, in any form
	Number                    // a number or a parameter
	Character                 // anything else
)

// Unended is a quote or a comment that does not end. The rest of the text belongs to it.
type Unended struct {
	What string // "comment", "quote", or "quote $tag$"
	At   int
}

// Lexer splits one text. Unended holds for what Tokens has gone through.
type Lexer struct {
	Unended *Unended // the text ends in it; nil if it ends outside of any

	text string
	at   int
}

// New returns a Lexer for a text.
func New(text string) *Lexer { return &Lexer{text: text} }

// Tokens goes through the tokens once.
func (l *Lexer) Tokens() iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for l.blank(); l.at < len(l.text); l.blank() {
			start := l.at
			t := Token{Kind: l.next(), At: start}
			if t.Kind == Word || t.Kind == Character {
				t.Text = strings.Map(lower, l.text[start:l.at])
			}
			if l.Unended != nil || !yield(t) {
				return
			}
		}
	}
}

// rest returns the text that is n bytes ahead.
func (l *Lexer) rest(n int) string { return l.text[min(l.at+n, len(l.text)):] }

// unended ends the text in something that began at a place.
func (l *Lexer) unended(what string, at int) {
	l.Unended = &Unended{what, at}
	l.at = len(l.text)
}

// blank skips blanks and comments.
func (l *Lexer) blank() {
	for {
		rest := l.rest(0)
		switch {
		case rest != "" && strings.IndexByte(" \t\n\r\f\v", rest[0]) >= 0:
			l.at++
		case strings.HasPrefix(rest, "--"):
			end := strings.IndexAny(rest, "\n\r")
			if end < 0 {
				end = len(rest)
			}
			l.at += end
		case strings.HasPrefix(rest, "/*"):
			l.comment()
		default:
			return
		}
	}
}

// comment skips a comment, which may have others inside.
func (l *Lexer) comment() {
	start, depth := l.at, 0
	for l.at < len(l.text) {
		switch rest := l.rest(0); {
		case strings.HasPrefix(rest, "/*"):
			depth++
			l.at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			l.at += 2
			if depth == 0 {
				return
			}
		default:
			l.at++
		}
	}
	l.unended("comment", start)
}

func (l *Lexer) next() Kind {
	c := l.text[l.at]
	switch ahead := l.rest(1); {
	case c == '\'':
		return l.quote(0, '\'', false)
	case c == '"':
		return l.quote(0, '"', false)
	case c == '$':
		return l.dollar()
	case isDigit(c), c == '.' && ahead != "" && isDigit(ahead[0]):
		return l.number()
	case isStart(c):
		return l.word()
	}
	l.at++
	return Character
}

// quote takes a string or a quoted identifier, whose quote comes after a prefix. In it, a quote is
// doubled, or comes behind a backslash if there are escapes.
func (l *Lexer) quote(prefix int, quote byte, escapes bool) Kind {
	start := l.at + prefix
	for l.at = start + 1; l.at < len(l.text); l.at++ {
		switch l.text[l.at] {
		case '\\':
			if escapes {
				l.at++
			}
		case quote:
			l.at++
			if l.at < len(l.text) && l.text[l.at] == quote {
				continue
			}
			if quote == '"' {
				return Quoted
			}
			if !escapes {
				return Literal
			}
			if l.blank(); !strings.HasPrefix(l.rest(0), "'") {
				return Literal
			}
			// on another line the string goes on, with the same escapes
		}
	}
	l.unended("quote", start)
	return Literal
}

// dollar takes $tag$…$tag$, or $1, or a $ that means nothing.
func (l *Lexer) dollar() Kind {
	start, ahead := l.at, l.rest(1)
	end := 0
	for end < len(ahead) && (isStart(ahead[end]) || isDigit(ahead[end])) {
		end++
	}
	switch {
	case end > 0 && isDigit(ahead[0]):
		digits := len(ahead) - len(strings.TrimLeft(ahead, "0123456789"))
		l.at += 1 + digits
		return Number
	case end < len(ahead) && ahead[end] == '$':
		tag := l.text[start : start+1+end+1]
		body := strings.Index(l.rest(len(tag)), tag)
		if body < 0 {
			l.unended("quote "+tag, start)
			return Literal
		}
		l.at += body + 2*len(tag)
		return Literal
	}
	l.at++
	return Character
}

// number takes a number of any version, and letters behind it.
func (l *Lexer) number() Kind {
	for l.at < len(l.text) {
		c := l.text[l.at]
		if !isDigit(c) && !isStart(c) && c != '.' {
			break
		}
		l.at++
	}
	return Number
}

// word takes a word, or the string or identifier that it is the prefix of.
func (l *Lexer) word() Kind {
	rest, end := l.rest(0), 1
	for end < len(rest) && (isStart(rest[end]) || isDigit(rest[end]) || rest[end] == '$') {
		end++
	}
	prefix, behind := strings.Map(lower, rest[:end]), rest[end:]
	switch {
	case prefix == "e" && strings.HasPrefix(behind, "'"):
		return l.quote(end, '\'', true)
	case (prefix == "b" || prefix == "x" || prefix == "n") && strings.HasPrefix(behind, "'"):
		return l.quote(end, '\'', false)
	case prefix == "u" && strings.HasPrefix(behind, "&'"):
		return l.quote(end+1, '\'', false)
	case prefix == "u" && strings.HasPrefix(behind, `&"`):
		return l.quote(end+1, '"', false)
	}
	l.at += end
	return Word
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

// lower folds ASCII letters and no others, as the server does for keywords and settings.
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r - 'A' + 'a'
	}
	return r
}
