// Package poll looks again and again until something is so. A look at a server may cost it dozens
// of milliseconds of CPU, which other tests need, so there is a pause after each look. It is for
// what stays so: a state that passes may be missed.
package poll

import "time"

// The pauses between looks: short at first, for what is soon so.
const (
	first = time.Millisecond
	most  = 50 * time.Millisecond
)

// Until looks until something holds, and reports false if it does not within the limit. It looks
// once more after the limit, because the machine may have stalled.
func Until(limit time.Duration, holds func() bool) bool {
	end := time.Now().Add(limit)
	for pause := first; !holds(); pause = min(2*pause, most) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
