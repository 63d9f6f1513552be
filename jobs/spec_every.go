package jobs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// minEvery is the shortest period of a job that repeats.
const minEvery = time.Second

// every is when a job starts again.
type every struct {
	period time.Duration // 0: the schedule says
	cron   cron.Schedule // nil: never, if the period is 0, too
}

// parseEvery reads Spec.Every. It may be empty: never.
func parseEvery(s string) (every, error) {
	if s == "" {
		return every{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		if d < minEvery {
			return every{}, fmt.Errorf("a job cannot start again every %s: at least %s", d, minEvery)
		}
		return every{period: d}, nil
	}
	schedule, err := parseCron(s)
	if err != nil {
		return every{}, fmt.Errorf("%q is neither a duration such as 15m nor a cron expression such as "+
			"'0 3 * * *' or 'CRON_TZ=Europe/Berlin 0 3 * * *': %w", s, err)
	}
	if schedule.Next(time.Now().UTC()).IsZero() {
		return every{}, fmt.Errorf("%q names a day that never comes", s)
	}
	return every{cron: schedule}, nil
}

// parseCron reads a cron expression. It is in UTC, or in the zone that it names.
func parseCron(s string) (cron.Schedule, error) {
	if zone, rest, named := strings.Cut(s, " "); !named || strings.TrimSpace(rest) == "" {
		if strings.Contains(zone, "TZ=") { // the parser would panic
			return nil, errors.New("nothing follows the time zone")
		}
	} else if strings.HasSuffix(zone, "TZ=Local") {
		return nil, errors.New("the local time of a machine is not that of the others: name the zone")
	}
	schedule, err := cron.ParseStandard(s)
	if spec, ok := schedule.(*cron.SpecSchedule); ok && spec.Location != time.Local {
		clock := *spec
		clock.Location = time.UTC
		return zoned{&clock, spec.Location}, err
	}
	return schedule, err
}

// zoned is a schedule by the clocks of a zone. That of package cron leaves out days, or takes others, where
// clocks are put forward at midnight.
type zoned struct {
	clock cron.Schedule // of what the clocks show, as if that were UTC
	zone  *time.Location
}

// clockShift is more than clocks are put forward or back at once.
const clockShift = 3 * time.Hour

// Next implements cron.Schedule. A time that clocks do not show is left out, and one that they show twice
// counts twice.
func (z zoned) Next(after time.Time) (next time.Time) {
	last := after.AddDate(5, 0, 0) // as package cron has it
	shown := z.clock.Next(z.shows(after).Add(-clockShift))
	for !shown.IsZero() && shown.Before(last) && (next.IsZero() || shown.Before(z.shows(next).Add(clockShift))) {
		near := shown.Add(-z.offset(shown))
		for _, offset := range []time.Duration{z.offset(near.Add(-clockShift)), z.offset(near.Add(clockShift))} {
			at := shown.Add(-offset)
			if z.shows(at).Equal(shown) && at.After(after) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		shown = z.clock.Next(shown)
	}
	return next
}

// offset is that of the zone's clocks from UTC.
func (z zoned) offset(at time.Time) time.Duration {
	_, seconds := at.In(z.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// shows is what the zone's clocks show, as if that were UTC.
func (z zoned) shows(at time.Time) time.Time { return at.UTC().Add(z.offset(at)) }

// next returns when a job whose first round was due at a time starts again, after now. It leaves out
// what was missed. It is false if there is no such time until the year 9999.
func (e every) next(first, now time.Time) (time.Time, bool) {
	switch {
	case e.period > 0:
		over := max(0, now.Sub(first)) / e.period
		at := first.Add(over * e.period).Add(e.period)
		return at, possible(at)
	case e.cron != nil:
		at := e.cron.Next(now.UTC())
		return at, possible(at)
	}
	return time.Time{}, false
}
