package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// minEvery is the shortest period of a job that repeats.
const minEvery = time.Second

// every is when a job starts again.
type every struct {
	period time.Duration // 0: the crontab says
	cron   *crontab      // nil: never, if the period is 0, too
}

// parseEvery reads Spec.Every. It may be empty: never.
func parseEvery(s string) (every, error) {
	text := strings.TrimSpace(s)
	if s == "" {
		return every{}, nil
	} else if text == "" {
		return every{}, errors.New("every is blank: leave it out, or say how often")
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < minEvery {
			return every{}, fmt.Errorf("a job cannot start again every %s: at least %s", d, minEvery)
		}
		return every{period: d}, nil
	}
	cron, err := parseCrontab(text)
	if err != nil {
		return every{}, fmt.Errorf("%q is neither a duration such as 15m nor a schedule of crontab(5) "+
			"such as '0 3 * * *' or 'CRON_TZ=Europe/Berlin 0 3 * * *': %w", s, err)
	}
	if cron.after(time.Now()).IsZero() {
		return every{}, fmt.Errorf("%q names a day that never comes", s)
	}
	return every{cron: cron}, nil
}

// next returns when a job whose first round was due at a time starts again, after now. It leaves
// out what was missed. It is false if there is no such time until the year 9999.
func (e every) next(first, now time.Time) (time.Time, bool) {
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
