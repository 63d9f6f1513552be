package schedule

import (
	"fmt"
	"time"
)

// Calendar is what lies ahead of a job that repeats.
type Calendar struct {
	// the next ones, in the zone of the schedule
	Rounds []time.Time `json:"rounds,omitempty"`
	// of one year, if rounds depend on them
	ClockChanges []ClockChange `json:"clock_changes,omitempty"`
}

// ClockChange is a change of the clocks in the zone of a schedule, and what it does to rounds.
type ClockChange struct {
	At     time.Time   `json:"at"`
	Zone   string      `json:"zone"`
	Effect ClockEffect `json:"effect"`
	Rounds int         `json:"rounds"` // how many the clocks leave out, or show twice
	Text   string      `json:"text"`   // all that, for people
}

// ClockEffect is what a change of the clocks does to rounds.
type ClockEffect string

// Effects of a change of the clocks, as crontab(5) has them. Rounds at times of the day are none
// the less run, and once. Those that a star repeats, in the minute or in the hour, go by what the
// clocks show.
const (
	// the time is left out: the round is due when the clocks have changed
	RunsLate  ClockEffect = "late"
	RunsOnce  ClockEffect = "once"     // the time comes twice: the round is due the first time
	IsLeftOut ClockEffect = "left out" // the time is left out, and the round, too
	RunsTwice ClockEffect = "twice"    // the time comes twice, and the round, too
)

// roundsAhead is how many a Calendar has.
const roundsAhead = 3

// changes are those from one time to another that make a difference.
func (c *crontab) changes(from, to time.Time) (all []ClockChange) {
	for at := from; ; {
		_, next := c.bounds(at)
		if next.IsZero() || next.After(to) {
			return all
		}
		at = next
		by := c.change(at)
		const everyHour = 1<<24 - 1
		if !c.fixed && c.hour == everyHour && by.shift()%time.Hour == 0 {
			continue // the rounds are equally far apart
		}
		if rounds := c.shown(by); len(rounds) > 0 {
			all = append(all, c.describe(by, rounds))
		}
	}
}

// describe says what a change of the clocks does to rounds.
func (c *crontab) describe(by clockChange, rounds []time.Time) ClockChange {
	const clock = "15:04"
	before, after := by.at.Add(by.from), by.at.Add(by.to)
	effect, does := RunsTwice, "twice"
	kept, forward := c.fixed && by.isSmall(), by.shift() > 0
	switch {
	case forward && kept:
		effect, does = RunsLate, "at "+after.Format(clock)
	case forward:
		effect, does = IsLeftOut, "not at all"
	case kept:
		effect, does = RunsOnce, "once, the first time"
	}
	which := "the round of " + rounds[0].Format(clock) + " runs " + does
	if n := len(rounds); n > 1 {
		if effect == RunsLate {
			does = "as one " + does
		}
		which = fmt.Sprintf("the %d rounds from %s to %s run %s", n, rounds[0].Format(clock),
			rounds[n-1].Format(clock), does)
	}
	return ClockChange{
		At: by.at.In(c.zone), Zone: c.zone.String(), Effect: effect, Rounds: len(rounds),
		Text: fmt.Sprintf("on %s the clocks of %s go from %s to %s: %s", before.Format(time.DateOnly),
			c.zone,
			before.Format(clock), after.Format(clock), which),
	}
}

// Calendar returns what lies ahead at a time, if the first round is due at another. Changes of the
// clocks are those of the year from from on. It is empty if nothing repeats.
func (e Every) Calendar(first, from, now time.Time) (ahead Calendar) {
	if e == (Every{}) {
		return ahead
	}
	zone := time.UTC
	if e.cron != nil {
		zone = e.cron.zone
		ahead.ClockChanges = e.cron.changes(from, from.AddDate(1, 0, 0))
	}
	round, more := first, true
	if first.Before(now) {
		round, more = e.Next(first, now)
	}
	for ; more && len(ahead.Rounds) < roundsAhead; round, more = e.Next(first, round) {
		ahead.Rounds = append(ahead.Rounds, round.In(zone))
	}
	return ahead
}
