package jobs

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ID identifies a job in its group: 26 characters, which begin with the time of the submission, so
// that IDs sort by age.
type ID string

// ErrBadID is returned for a text that is no ID.
var ErrBadID = errors.New("not a job's ID")

// digits keep the order of the bits that they stand for, and are legal in names of resources.
var digits = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

const idLength = 26

// newID returns an ID that no other job has: 48 bits of time, in milliseconds, and 80 random bits.
func newID(now time.Time) ID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:])
	return ID(digits.EncodeToString(b[:]))
}

// ParseID checks a text. Anything but the form of an ID is ErrBadID.
func ParseID(s string) (ID, error) {
	if _, err := digits.DecodeString(s); err != nil || len(s) != idLength {
		return "", fmt.Errorf("%w: %.140q", ErrBadID, s)
	}
	return ID(strings.ToLower(s)), nil
}
