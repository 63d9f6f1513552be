package records

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/ringfence/ringfence/jobs/internal/digits"
	"github.com/ringfence/ringfence/jobs/job"
)

// NewID returns an ID that no other job has: 48 bits of time, in milliseconds, and 80 random bits.
func NewID(now time.Time) job.ID {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:])
	return job.ID(digits.Text(b[:]))
}
