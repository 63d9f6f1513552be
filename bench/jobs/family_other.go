//go:build !linux

package jobs

import (
	"errors"
	"time"
)

func familyCPU() (time.Duration, error) {
	return 0, errors.New("the rows with a store need Linux: they read /proc")
}
