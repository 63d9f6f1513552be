package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestACalendarShowsWhatAChangeOfClocksDoes(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for every, want := range map[string]string{
		"CRON_TZ=Europe/Berlin 30 2 * * *": "2027-03-28 late 1: on 2027-03-28 the clocks of " +
			"Europe/Berlin go from 02:00 to 03:00: the round of 02:30 runs at 03:00; 2027-10-31 once 1: " +
			"on 2027-10-31 the clocks of Europe/Berlin go from 03:00 to 02:00: the round of 02:30 runs " +
			"once, the first time",
		"CRON_TZ=Europe/Berlin 15,45 2 * * *": "2027-03-28 late 2: on 2027-03-28 the clocks of " +
			"Europe/Berlin go from 02:00 to 03:00: the 2 rounds from 02:15 to 02:45 run as one at 03:00; " +
			"2027-10-31 once 2: on 2027-10-31 the clocks of Europe/Berlin go from 03:00 to 02:00: the 2 " +
			"rounds from 02:15 to 02:45 run once, the first time",
		"CRON_TZ=America/New_York 0 */2 * * *": "2027-03-14 left out 1: on 2027-03-14 the clocks of " +
			"America/New_York go from 02:00 to 03:00: the round of 02:00 runs not at all",
		"CRON_TZ=America/New_York */20 1 * * *": "2027-11-07 twice 3: on 2027-11-07 the clocks of " +
			"America/New_York go from 02:00 to 01:00: the 3 rounds from 01:00 to 01:40 run twice",
		"CRON_TZ=Australia/Lord_Howe 0 * * * *": "2027-10-03 left out 1: on 2027-10-03 the clocks of " +
			"Australia/Lord_Howe go from 02:00 to 02:30: the round of 02:00 runs not at all",
		"CRON_TZ=Australia/Lord_Howe 45 1 * * *": "2027-04-04 once 1: on 2027-04-04 the clocks of " +
			"Australia/Lord_Howe go from 02:00 to 01:30: the round of 01:45 runs once, the first time",
		"CRON_TZ=Africa/Cairo 10 0 * * *": "2027-04-30 late 1: on 2027-04-30 the clocks of " +
			"Africa/Cairo go from 00:00 to 01:00: the round of 00:10 runs at 01:00",
		"CRON_TZ=Europe/Berlin 30 2 1 * *":  "", // no change on that day
		"CRON_TZ=Europe/Berlin */5 * * * *": "", // every five minutes
		"CRON_TZ=Europe/Berlin 0 3 * * *":   "",
		"CRON_TZ=Asia/Tokyo 30 2 * * *":     "",
		"30 2 * * *":                        "",
		"15m":                               "",
		"":                                  "",
	} {
		e, err := Parse(every)
		if err != nil {
			t.Error(err)
		}
		ahead := aheadOf(e, now)
		var all []string
		for _, c := range ahead.ClockChanges {
			all = append(all, strings.Join([]string{c.At.Format(time.DateOnly), string(c.Effect),
				string('0' + rune(c.Rounds))},
				" ")+": "+c.Text)
			if c.At.Location().String() != c.Zone {
				t.Errorf("%s: %s is not in %s", every, c.At, c.Zone)
			}
		}
		if got := strings.Join(all, "; "); got != want {
			t.Errorf("%q:\n%s, want\n%s", every, got, want)
		}
		if n := len(ahead.Rounds); n != roundsAhead && every != "" {
			t.Errorf("%q has %d rounds", every, n)
		}
	}
}

// What a Calendar says of a change is what rounds do.
func TestACalendarSaysWhatHappens(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, zone := range zonesTried {
		for _, fields := range []string{
			"30 2 * * *", "*/10 2 * * *", "10 */2 * * *", "0,10 0-3 * * *", "20 0,1,2,3,23 * * *", "40 * " +
				"* * *",
		} {
			text := "CRON_TZ=" + zone + " " + fields
			e, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range aheadOf(e, now).ClockChanges {
				n := 0 // from the first one of the time that is left out, or comes twice, on
				begin, end := c.At, c.At.Add(time.Nanosecond)
				if c.Effect == RunsOnce || c.Effect == RunsTwice {
					before, after := c.At.Add(-time.Nanosecond), c.At
					_, had := before.Zone()
					_, has := after.Zone()
					shift := time.Duration(had-has) * time.Second
					begin, end = c.At.Add(-shift), c.At.Add(shift)
				}
				for range roundsOf(t, text, begin.UTC(), end.UTC()) {
					n++
				}
				want := map[ClockEffect]int{RunsLate: 1, RunsOnce: c.Rounds, RunsTwice: 2 * c.Rounds}[c.Effect]
				if c.Effect != IsLeftOut && n != want {
					t.Errorf("%s: %d rounds, want %d: %s", text, n, want, c.Text)
				}
			}
		}
	}
}

// aheadOf is the calendar of a job that is submitted now.
func aheadOf(e Every, now time.Time) Calendar {
	first, _ := e.First(now)
	return e.Calendar(first, now, now)
}
