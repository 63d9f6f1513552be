package cli

import (
	"strconv"
	"strings"
)

// Printable quotes what another process has chosen to be called where it would spoil a line or a
// terminal.
func Printable(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || r == '"' || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
