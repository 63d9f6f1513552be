package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/jobs/internal/digits"
)

// ID identifies a job in its group: 26 characters, which begin with the time of the submission, so
// that IDs sort by age.
type ID string

// ErrBadID is returned for a text that is no ID.
var ErrBadID = errors.New("not a job's ID")

const idLength = 26

// ParseID checks a text. Anything but the form of an ID is ErrBadID.
func ParseID(s string) (ID, error) {
	if !digits.Valid(s) || len(s) != idLength {
		return "", fmt.Errorf("%w: %.140q", ErrBadID, s)
	}
	return ID(strings.ToLower(s)), nil
}
