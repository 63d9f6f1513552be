package redisguard

import (
	"strconv"
	"strings"
)

// maxInline is the longest inline command. So an inline command always fits into the relay's
// buffer. Redis takes up to 64 KiB.
const maxInline = 8 << 10

// inlineWords reads a line of words, as people type it. A word may be quoted: "…" with escapes, or
// '…'.
func inlineWords(line []byte, args [][]byte) ([][]byte, error) {
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		if len(line) == 0 {
			return args, nil
		}
		word, rest, ok := inlineWord(line)
		if !ok {
			return args, protocolError("unbalanced quotes in request")
		}
		args, line = append(args, word), rest
	}
}

// inlineWord reads the first word of a line, by the rules of Redis' sdssplitargs: \v and \f may
// come between words, and after a closing quote, but they do not end an unquoted word.
func inlineWord(line []byte) (word, rest []byte, ok bool) {
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\r', '\n':
			return word, line[i:], true
		case '"', '\'':
			word, n, ok := inlineQuoted(word, line[i:], c)
			if i += n; !ok || i < len(line) && !isSpace(line[i]) {
				return nil, nil, false
			}
			return word, line[i:], true
		default:
			word = append(word, c)
		}
	}
	return word, nil, true
}

// inlineQuoted reads a quoted part that begins with its quote. n is its length with both quotes.
func inlineQuoted(word, line []byte, quote byte) (_ []byte, n int, ok bool) {
	for i := 1; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return word, i + 1, true
		case c != '\\' || i+1 == len(line):
			word = append(word, c)
		case quote == '\'':
			if line[i+1] == '\'' {
				i++
				c = '\''
			}
			word = append(word, c)
		default:
			escaped, n := unescape(line[i+1:])
			word = append(word, escaped)
			i += n
		}
	}
	return word, len(line), false
}

// unescape reads what follows a backslash. n is its length.
func unescape(b []byte) (c byte, n int) {
	if b[0] == 'x' && len(b) > 2 {
		if c, err := strconv.ParseUint(string(b[1:3]), 16, 8); err == nil {
			return byte(c), 3
		}
	}
	if i := strings.IndexByte("nrtba", b[0]); i >= 0 {
		return "\n\r\t\b\a"[i], 1
	}
	return b[0], 1
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
