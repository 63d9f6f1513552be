package elector

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxHolder is how many bytes the name of a holder may have. Every coordinator can store so many.
const MaxHolder = 1024

// ErrBadHolder is returned for a holder that CheckHolder refuses.
var ErrBadHolder = errors.New("not a holder's name")

// CheckHolder checks the name of a holder: UTF-8 without the character NUL, at most MaxHolder
// bytes. It may be empty. Anything else is ErrBadHolder. Coordinators call it before they enrol.
func CheckHolder(holder string) error {
	switch {
	case len(holder) > MaxHolder:
		return fmt.Errorf("%w: %.40q has %d bytes; %d are allowed", ErrBadHolder, holder,
			len(holder), MaxHolder)
	case !utf8.ValidString(holder):
		return fmt.Errorf("%w: %.40q is not UTF-8", ErrBadHolder, holder)
	case strings.ContainsRune(holder, 0):
		return fmt.Errorf("%w: %.40q contains NUL", ErrBadHolder, holder)
	}
	return nil
}
