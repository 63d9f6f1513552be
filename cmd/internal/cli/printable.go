package cli

import (
	"strconv"
	"strings"
)

// Printable quotes a name that another process has chosen, if it would break the layout or send
// control characters to the terminal.
func Printable(s string) string {
	unsafe := func(r rune) bool { return r == ' ' || r == '"' || !strconv.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, unsafe) {
		return strconv.Quote(s)
	}
	return s
}

// PrintableText escapes what would break a line of a text, or send control characters to the
// terminal. Unlike Printable it leaves blanks and quotes as they are.
func PrintableText(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
