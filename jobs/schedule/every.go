// Package schedule says when a job that repeats starts again: after a period, or as crontab(5) has
// it.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// minEvery is the shortest period of a job that repeats.
const minEvery = time.Second

// Every is when a job starts again.
type Every struct {
	period time.Duration // 0: the crontab says
	cron   *crontab      // nil: never, if the period is 0, too
}

// Parse reads Spec.Every. It may be empty: never.
func Parse(s string) (Every, error) {
	text := strings.TrimSpace(s)
	if s == "" {
		return Every{}, nil
	} else if text == "" {
		return Every{}, errors.New("every is blank: leave it out, or say how often")
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < minEvery {
			return Every{}, fmt.Errorf("a job cannot start again every %s: at least %s", d, minEvery)
		}
		return Every{period: d}, nil
	}
	cron, err := parseCrontab(text)
	if err != nil {
		return Every{}, fmt.Errorf("%q is neither a duration such as 15m nor a schedule of crontab(5) "+
			"such as '0 3 * * *' or 'CRON_TZ=Europe/Berlin 0 3 * * *': %w", s, err)
	}
	if cron.after(time.Now()).IsZero() {
		return Every{}, fmt.Errorf("%q names a day that never comes", s)
	}
	return Every{cron: cron}, nil
}

// Next returns when a job whose first round was due at a time starts again, after now. It leaves
// out what was missed. It is false if there is no such time until the year 9999.
func (e Every) Next(first, now time.Time) (time.Time, bool) {
	switch {
	case e.period > 0:
		over := max(0, now.Sub(first)) / e.period
		at := first.Add(over * e.period).Add(e.period)
		return at, possible(at)
	case e.cron != nil:
		at := e.cron.after(now)
		return at, possible(at)
	}
	return time.Time{}, false
}

// First is when the first round is due of a job that may run from a time on. It is false if there
// is no such time until the year 9999.
func (e Every) First(from time.Time) (time.Time, bool) {
	if e.cron == nil {
		return from, true
	}
	at := e.cron.after(from.Add(-time.Nanosecond))
	return at, possible(at)
}

// LastYear is the last one that JSON has.
const LastYear = 9999

// possible reports whether a round can be due at a time. The zero time is no time of a schedule.
func possible(due time.Time) bool { return !due.IsZero() && due.Year() <= LastYear }

// Later returns the later of two times. A job is never due before its round, although the clock of
// the assigner may be ahead: at its end the round would be due again.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
