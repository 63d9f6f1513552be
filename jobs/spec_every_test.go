package jobs

import (
	"testing"
	"time"
	_ "time/tzdata"
)

func TestACronExpressionIsInTheZoneThatItNames(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.Parse(time.DateTime, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, c := range []struct{ every, after, want string }{ // all in UTC
		{"0 3 * * *", "2026-11-23 00:00:00", "2026-11-23 03:00:00"},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", "2026-11-23 00:00:00", "2026-11-23 02:00:00"},
		{"TZ=Europe/Berlin 0 3 * * *", "2026-07-23 00:00:00", "2026-07-23 01:00:00"},
		// The clock is set from two to three, and from three to two.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28 12:00:00", "2026-03-30 00:30:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24 12:00:00", "2026-10-25 00:30:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25 00:30:00", "2026-10-25 01:30:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25 01:30:00", "2026-10-26 01:30:00"},
	} {
		e, err := parseEvery(c.every)
		if err != nil {
			t.Error(err)
			continue
		}
		got, _ := e.next(time.Time{}, at(c.after))
		if !got.Equal(at(c.want)) || got.Location() != time.UTC {
			t.Errorf("%s after %s: %s, want %s", c.every, c.after, got, c.want)
		}
	}
	for _, bad := range []string{
		"TZ=Europe/Berlin", "CRON_TZ=", "CRON_TZ= ", "TZ=Nowhere/Unknown 0 3 * * *", "TZ=Europe/Berlin 15m",
		"TZ=Local 0 3 * * *", "TZ=../../etc/passwd 0 3 * * *",
	} {
		if e, err := parseEvery(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, e)
		}
	}
}

// Clocks that are put forward at midnight show one o'clock after 23:59, on a day that has no midnight.
func TestACronExpressionKeepsItsDaysWhereMidnightIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		zone string
		gap  time.Time // in UTC: the first moment of the day without a midnight
	}{
		{"Africa/Cairo", time.Date(2026, 4, 23, 22, 0, 0, 0, time.UTC)},
		{"Asia/Beirut", time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC)},
		{"America/Santiago", time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC)},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		_, before := c.gap.Add(-time.Nanosecond).In(zone).Zone()
		if _, after := c.gap.In(zone).Zone(); after <= before {
			t.Errorf("%s: the clocks are not put forward at %s", c.zone, c.gap)
		}
		for expression, on := range map[string]func(time.Time) bool{
			"0 0 * * *":      func(at time.Time) bool { return at.Hour() == 0 && at.Minute() == 0 },
			"30 0,1,2 * * *": func(at time.Time) bool { return at.Hour() < 3 && at.Minute() == 30 },
			"0 3 * * 0":      func(at time.Time) bool { return at.Hour() == 3 && at.Minute() == 0 && at.Weekday() == 0 },
			"0 3 * * 5":      func(at time.Time) bool { return at.Hour() == 3 && at.Minute() == 0 && at.Weekday() == 5 },
			"0 3 24 4 *": func(at time.Time) bool {
				return at.Hour() == 3 && at.Minute() == 0 && at.Month() == 4 && at.Day() == 24
			},
			"*/30 23 * * 6": func(at time.Time) bool { return at.Hour() == 23 && at.Minute()%30 == 0 && at.Weekday() == 6 },
		} {
			e, err := parseEvery("CRON_TZ=" + c.zone + " " + expression)
			if err != nil {
				t.Fatal(err)
			}
			now := c.gap.AddDate(0, 0, -40)
			for at := now.Add(30 * time.Minute); at.Before(c.gap.AddDate(0, 8, 0)); at = at.Add(30 * time.Minute) {
				if !on(at.In(zone)) {
					continue
				}
				if got, _ := e.next(time.Time{}, now); !got.Equal(at) {
					t.Fatalf("%s %s: after %s comes %s, want %s", c.zone, expression, now.In(zone), got.In(zone), at.In(zone))
				}
				now = at
			}
		}
	}
}
