package schedule

import "time"

// A crontab is about what clocks show. Here that is a time in UTC with the same digits, so that one
// day has 24 hours.

// searched is how many years are searched for a round. A 29 February is on a given day of the week
// after 40 years at the latest.
const searched = 40

// after is the first round after a time, in UTC. It is the zero time if there is none.
func (c *crontab) after(t time.Time) time.Time {
	from, last := t.UTC().Add(time.Nanosecond), t.UTC().AddDate(searched, 0, 1)
	for from.Before(last) { // as long as the clocks do not change
		begun, ends := c.bounds(from)
		offset := c.offset(from)
		shown, until := from.Add(offset), last.Add(offset)
		if by := c.change(begun); c.fixed && by.isSmall() {
			if by.shift() > 0 && from.Equal(begun) && len(c.shown(by)) > 0 {
				return from // what the clocks have left out
			}
			shown = Later(shown, by.at.Add(by.from)) // they may show again what was before the change
		}
		if !ends.IsZero() && ends.Before(last) {
			until = ends.UTC().Add(offset)
		}
		if round := c.find(shown, until); !round.IsZero() {
			return round.Add(-offset)
		}
		from = until.Add(-offset)
	}
	return time.Time{}
}

// find is the first time from one on, and before another, that is in the crontab.
func (c *crontab) find(from, until time.Time) time.Time {
	at := from.Add(time.Minute - time.Nanosecond).Truncate(time.Minute)
	for at.Before(until) {
		switch {
		case c.month>>at.Month()&1 == 0:
			at = time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.hasDay(at):
			at = time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
		case c.hour>>at.Hour()&1 == 0:
			at = at.Truncate(time.Hour).Add(time.Hour)
		case c.minute>>at.Minute()&1 == 0:
			at = at.Add(time.Minute)
		default:
			return at
		}
	}
	return time.Time{}
}

func (c *crontab) hasDay(at time.Time) bool {
	day, weekday := c.day>>at.Day()&1 == 1, c.weekday>>at.Weekday()&1 == 1
	if c.both {
		return day && weekday
	}
	return day || weekday
}

// bounds are those of the time around another in which the zone's clocks do not change. The end is
// the zero time if they never change again.
func (c *crontab) bounds(at time.Time) (begun, ends time.Time) {
	begun, ends = at.In(c.zone).ZoneBounds()
	if !ends.IsZero() && !ends.After(at) { // on the last day of a leap year: golang/go#81583
		ends = at.Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return begun, ends
}

// offset is that of the zone's clocks from UTC.
func (c *crontab) offset(at time.Time) time.Duration {
	_, seconds := at.In(c.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// clockChange is a change of the zone's clocks, from one offset to another.
type clockChange struct {
	at       time.Time // in UTC
	from, to time.Duration
}

// change is the one at a time that is among the bounds.
func (c *crontab) change(at time.Time) clockChange {
	return clockChange{at.UTC(), c.offset(at.Add(-time.Nanosecond)), c.offset(at)}
}

// shift is how far the clocks are put forward.
func (c clockChange) shift() time.Duration { return c.to - c.from }

// isSmall: after a larger one crontab(5) goes by what the clocks show, whatever that leaves out.
func (c clockChange) isSmall() bool { return c.shift().Abs() < 3*time.Hour }

// shown are the times of the crontab that clocks leave out, or show twice.
func (c *crontab) shown(by clockChange) (all []time.Time) {
	from, until := by.at.Add(min(by.from, by.to)), by.at.Add(max(by.from, by.to))
	for {
		at := c.find(from, until)
		if at.IsZero() {
			return all
		}
		all, from = append(all, at), at.Add(time.Minute)
	}
}
