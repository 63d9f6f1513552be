// Package leak looks for goroutines that tests leave behind.
package leak

import (
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end: on a busy machine what was closed ends late. goleak's own is less than half
// a second.
const patience = 30 * time.Second

// Find is goleak.Find, asked until all goroutines have ended, or for so long that they never will.
func Find(o ...goleak.Option) (err error) {
	for begin := time.Now(); ; {
		if err = goleak.Find(o...); err == nil || time.Since(begin) > patience {
			return err
		}
	}
}
