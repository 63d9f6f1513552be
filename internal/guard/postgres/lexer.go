package postgres

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// token is a word, a quoted thing or a character of a statement.
type token struct {
	kind tokenKind
	text string // of a word, in lower case; of a character, itself
}

type tokenKind byte

const (
	word      tokenKind = iota + 1 // a keyword or an identifier that is not quoted
	quoted                         // a quoted identifier
	literal                        // a string, in any form
	number                         // a number or a parameter
	character                      // anything else
)

// errUnreadable refuses a text that the server might split in another way than lex.
var errUnreadable = errors.New("the guard cannot tell where a string or a comment ends")

// lex splits a text as the server does (src/backend/parser/scan.l). Where versions or settings of the
// server differ it fails, or says that it depends: standard_conforming_strings says whether a backslash
// in a string hides the quote behind it, and the client's encoding what other bytes than ASCII are.
func lex(text string) (tokens []token, depends bool, err error) {
	l := lexer{rest: text, depends: !isASCII(text)}
	for {
		if err := l.blank(); err != nil {
			return nil, false, err
		}
		if l.rest == "" {
			return l.tokens, l.depends, nil
		}
		if err := l.next(); err != nil {
			return nil, false, err
		}
	}
}

type lexer struct {
	rest    string
	tokens  []token
	depends bool
}

func (l *lexer) add(k tokenKind, text string, length int) error {
	l.tokens = append(l.tokens, token{k, text})
	l.rest = l.rest[length:]
	return nil
}

// blank skips blanks and comments. Comments nest.
func (l *lexer) blank() error {
	for {
		switch {
		case l.rest != "" && strings.IndexByte(" \t\n\r\f\v", l.rest[0]) >= 0:
			l.rest = l.rest[1:]
		case strings.HasPrefix(l.rest, "--"):
			end := strings.IndexAny(l.rest, "\n\r")
			if end < 0 {
				end = len(l.rest)
			}
			l.rest = l.rest[end:]
		case strings.HasPrefix(l.rest, "/*"):
			if err := l.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (l *lexer) comment() error {
	depth := 0
	for at := 0; at+1 < len(l.rest); {
		switch l.rest[at : at+2] {
		case "/*":
			depth++
			at += 2
		case "*/":
			depth--
			at += 2
			if depth == 0 {
				l.rest = l.rest[at:]
				return nil
			}
		default:
			at++
		}
	}
	return errUnreadable
}

func (l *lexer) next() error {
	c := l.rest[0]
	switch {
	case c == '\'':
		return l.str(false, 0)
	case c == '"':
		return l.identifier(0)
	case c == '$':
		return l.dollar()
	case c >= '0' && c <= '9', c == '.' && len(l.rest) > 1 && isDigit(l.rest[1]):
		return l.number()
	case isStart(c):
		return l.word()
	}
	return l.add(character, l.rest[:1], 1)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

// str takes a string whose quote comes after a prefix.
func (l *lexer) str(escapes bool, prefix int) error {
	for at := prefix + 1; at < len(l.rest); at++ {
		switch l.rest[at] {
		case '\\':
			l.depends = true
			if escapes {
				at++
			}
		case '\'':
			if at+1 < len(l.rest) && l.rest[at+1] == '\'' {
				at++
				continue
			}
			_ = l.add(literal, "", at+1)
			if !escapes {
				return nil
			}
			// On another line the string may go on, with the same escapes.
			if err := l.blank(); err != nil {
				return err
			}
			if strings.HasPrefix(l.rest, "'") {
				return errUnreadable
			}
			return nil
		}
	}
	return errUnreadable
}

// identifier takes a quoted identifier.
func (l *lexer) identifier(prefix int) error {
	for at := prefix + 1; at < len(l.rest); at++ {
		if l.rest[at] != '"' {
			continue
		}
		if at+1 < len(l.rest) && l.rest[at+1] == '"' {
			at++
			continue
		}
		return l.add(quoted, "", at+1)
	}
	return errUnreadable
}

// dollar takes $tag$…$tag$ or $1.
func (l *lexer) dollar() error {
	end := 1
	for end < len(l.rest) && (isStart(l.rest[end]) || isDigit(l.rest[end])) {
		end++
	}
	switch {
	case end > 1 && isDigit(l.rest[1]):
		for _, c := range []byte(l.rest[1:end]) {
			if !isDigit(c) {
				return errUnreadable
			}
		}
		return l.add(number, "", end)
	case end < len(l.rest) && l.rest[end] == '$':
		tag := l.rest[:end+1]
		body := strings.Index(l.rest[len(tag):], tag)
		if body < 0 {
			return errUnreadable
		}
		return l.add(literal, "", body+2*len(tag))
	}
	return errUnreadable
}

// number takes a number of any version. What could be junk behind it must not begin a string.
func (l *lexer) number() error {
	end, letters := 0, false
	for end < len(l.rest) && (isDigit(l.rest[end]) || isStart(l.rest[end]) || l.rest[end] == '.') {
		letters = letters || isStart(l.rest[end])
		end++
	}
	if letters && end < len(l.rest) && strings.IndexByte(`'"$&`, l.rest[end]) >= 0 {
		return errUnreadable
	}
	return l.add(number, "", end)
}

func (l *lexer) word() error {
	end := 1
	for end < len(l.rest) && (isStart(l.rest[end]) || isDigit(l.rest[end]) || l.rest[end] == '$') {
		end++
	}
	text := strings.Map(lowerASCII, l.rest[:end])
	next := byte(0)
	if end < len(l.rest) {
		next = l.rest[end]
	}
	switch {
	case text == "e" && next == '\'':
		return l.str(true, end)
	case (text == "b" || text == "x" || text == "n") && next == '\'':
		return l.str(false, end)
	case text == "u" && strings.HasPrefix(l.rest[end:], "&'"):
		return l.str(false, end+1)
	case text == "u" && strings.HasPrefix(l.rest[end:], `&"`):
		return l.identifier(end + 1)
	}
	return l.add(word, text, end)
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// lowerASCII folds ASCII letters and no others, as the server does for keywords and settings.
func lowerASCII(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r - 'A' + 'a'
	}
	return r
}
