// Package leak looks for goroutines that tests leave behind.
package leak

import (
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end after everything was closed, on a busy machine.
// goleak itself waits less than half a second.
const patience = 30 * time.Second

// Find calls goleak.Find until all goroutines have ended, or until patience is over.
func Find(o ...goleak.Option) (err error) {
	for begin := time.Now(); ; {
		if err = goleak.Find(o...); err == nil || time.Since(begin) > patience {
			return err
		}
	}
}
