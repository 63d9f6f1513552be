//go:build !linux

package ways

import (
	"errors"
	"time"
)

func cpuTime(int) (time.Duration, bool) { return 0, false }

func resident(int) (int64, error) { return 0, errors.ErrUnsupported }
