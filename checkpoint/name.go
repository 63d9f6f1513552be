package checkpoint

import (
	"errors"
	"fmt"
	"regexp"
)

// Name is the name of a task in its journal: 1 to 128 letters, digits and "._:-", beginning with a
// letter or digit. Give each occurrence of a job its own name, such as settlement-2026-11-21.
type Name string

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// ErrBadName is returned for a name that does not have a Name's form.
var ErrBadName = errors.New("not a task name")

// ParseName checks the form.
func ParseName(s string) (Name, error) {
	if !nameForm.MatchString(s) {
		return "", fmt.Errorf("%w: %.140q: use 1 to 128 letters, digits and ._:- and begin with a "+
			"letter or digit", ErrBadName, s)
	}
	return Name(s), nil
}

// Key is the idempotency key of a step. A service that remembers keys can ignore a repeated step.
// The key stays the same however often the step runs and whoever leads; it differs in each run and
// round.
type Key struct {
	Task  Name
	Run   int64
	Round int64
	Step  string
}

// String returns the key as text, such as "settlement-2026-11-21/1/1/send".
func (k Key) String() string { return fmt.Sprintf("%s/%d/%d/%s", k.Task, k.Run, k.Round, k.Step) }
