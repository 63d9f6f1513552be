package process

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
)

// Mark is the variable that all processes of one command inherit, and no process of another command
// has.
const Mark = "RINGFENCE_TERM"

var (
	ownMarks = rand.Text() + "."
	marks    atomic.Int64
)

// NewMark returns a value of Mark that no other command has, of this program or of another one.
func NewMark() string { return fmt.Sprintf("%s%d", ownMarks, marks.Add(1)) }

// IsOwnMark reports whether NewMark has returned a value in this program.
func IsOwnMark(value string) bool { return strings.HasPrefix(value, ownMarks) }
