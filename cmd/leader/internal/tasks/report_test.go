package tasks

import (
	"testing"
	"time"
)

func TestPauseBetweenRoundsIsNeverLongerThanEvery(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{
		0: time.Minute, 40 * time.Second: 20 * time.Second, time.Hour: 0, -time.Hour: time.Minute,
	} {
		if got := remaining(time.Minute, since); got != want {
			t.Errorf("after %s: %s, want %s", since, got, want)
		}
	}
}
