package fence

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
)

// Token is the number of a term. It is opaque, positive and ordered: of two tokens of one resource
// and one issuer, the higher one belongs to the later term. In ZooKeeper it is the czxid of the
// leader's znode, in etcd the create revision of its key.
//
// Tokens exceed 2^53, so a token must never become a float, a JSON number or a Lua number; its text
// form is decimal. The zero Token belongs to no term.
type Token int64

// ParseToken reads the decimal form. It accepts exactly what String writes: digits only, no sign,
// no leading zero, 1 to 9223372036854775807. Anything else is ErrBadToken.
func ParseToken(s string) (Token, error) {
	switch {
	case s == "":
		return 0, fmt.Errorf("%w: it is empty", ErrBadToken)
	case len(s) > 1 && s[0] == '0':
		return 0, fmt.Errorf("%w: %s has a leading zero", ErrBadToken, excerpt(s))
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%w: %s is not a decimal number", ErrBadToken, excerpt(s))
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is above %d", ErrBadToken, excerpt(s), int64(math.MaxInt64))
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: 0 belongs to no term", ErrBadToken)
	}
	return Token(n), nil
}

// String returns the decimal form, which ParseToken reads.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Compare returns -1 if t is older than u, 0 if they are equal, and +1 if t is newer. Tokens of
// different issuers cannot be compared; compare the issuers first.
func (t Token) Compare(u Token) int { return cmp.Compare(t, u) }

// MarshalText makes JSON write a token as a string, because a JSON number would lose digits above
// 2^53.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote. It also accepts "0", the text of a mark that no term
// has raised.
func (t *Token) UnmarshalText(b []byte) error {
	if string(b) == "0" {
		*t = 0
		return nil
	}
	parsed, err := ParseToken(string(b))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// excerpt quotes the beginning of s, so that a hostile value cannot flood a log.
func excerpt(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
