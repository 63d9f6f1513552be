package records

import (
	"time"

	"github.com/ringfence/ringfence/jobs/job"
)

// The defaults of a Spec.
const (
	defaultBackoff = time.Second
	maxBackoff     = time.Hour

	keepDone  = 24 * time.Hour
	keepOther = 7 * 24 * time.Hour
)

// keep is how long the status stays after the end.
func keep(s job.Status) time.Duration {
	switch {
	case s.Keep != 0:
		return time.Duration(s.Keep)
	case s.State == job.Done:
		return keepDone
	}
	return keepOther
}

// pauseAfter is how long a job waits after so many failures.
func pauseAfter(s job.Spec, failures int) time.Duration {
	d := time.Duration(s.Backoff)
	if d == 0 {
		d = defaultBackoff
	}
	first := d
	for range failures - 1 {
		if d >= maxBackoff/2 {
			return max(maxBackoff, first)
		}
		d *= 2
	}
	return d
}
