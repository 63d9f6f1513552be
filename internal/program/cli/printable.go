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
