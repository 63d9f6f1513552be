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
