package schedule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/ringfence/ringfence/internal/test/must"
)

// zonesTried have clocks that change by an hour, by half an hour, at midnight, and not at all.
var zonesTried = []string{
	"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago",
	"Asia/Tokyo",
}

// wanted is a schedule as a test has made it up: the values of each field, and what begins with a
// star.
type wanted struct {
	has  [5][61]bool
	star [5]bool
}

// matches reports whether a schedule has what the clocks show.
func (w wanted) matches(shown time.Time) bool {
	if !w.has[0][shown.Minute()] || !w.has[1][shown.Hour()] || !w.has[3][shown.Month()] {
		return false
	}
	day, weekday := w.has[2][shown.Day()], w.has[4][shown.Weekday()] || shown.Weekday() == 0 &&
		w.has[4][7]
	if w.star[2] || w.star[4] {
		return day && weekday
	}
	return day || weekday
}

// simulated runs cron, minute by minute: what it looks at is what the clocks show. A time of the
// day that they have left out is due after the change, and one that comes again is not.
func (w wanted) simulated(zone *time.Location, from, to time.Time) (rounds []time.Time) {
	shows := func(at time.Time) time.Time {
		_, offset := at.In(zone).Zone()
		return at.UTC().Add(time.Duration(offset) * time.Second)
	}
	// the latest minute for which times of the day have been looked at
	seen := shows(from.Add(-time.Minute))
	for at := from.UTC(); at.Before(to); at = at.Add(time.Minute) {
		now, due := shows(at), false
		if w.star[0] || w.star[1] {
			due = w.matches(now)
		} else {
			for seen.Before(now) {
				seen = seen.Add(time.Minute)
				due = due || w.matches(seen)
			}
		}
		if due {
			rounds = append(rounds, at)
		}
	}
	return rounds
}

// randomField makes up a field of a crontab, and what it means.
func randomField(f crontabField, r *rand.Rand) (text string, has [61]bool) {
	values := int(f.max-f.min) + 1
	name := func(n int) string {
		if i := n - int(f.min); f.names != nil && i < len(f.names) && r.IntN(3) == 0 {
			return strings.Map(func(c rune) rune { // in any case
				if r.IntN(2) == 0 {
					return c - 'a' + 'A'
				}
				return c
			}, f.names[i])
		}
		return strings.Repeat("0", r.IntN(2)) + fmt.Sprint(n)
	}
	var parts []string
	for range 1 + r.IntN(3) {
		first := int(f.min) + r.IntN(values)
		last, step, part := first, 1, ""
		switch r.IntN(4) {
		case 0:
			first, last, part = int(f.min), int(f.max), "*"
		case 1:
			last = first + r.IntN(int(f.max)-first+1)
			part = name(first) + "-" + name(last)
		default:
			part = name(first)
		}
		if strings.ContainsAny(part, "*-") && r.IntN(2) == 0 {
			step = 1 + r.IntN(values+3)
			part += "/" + fmt.Sprint(step)
		}
		for n := first; n <= last; n += step {
			has[n] = true
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ","), has
}

func randomCrontab(r *rand.Rand) (string, wanted) {
	var texts []string
	var w wanted
	for i, f := range crontabFields {
		text, has := "*", [61]bool{}
		if r.IntN(3) > 0 {
			text, has = randomField(f, r)
		} else {
			for n := f.min; n <= f.max; n++ {
				has[n] = true
			}
		}
		w.has[i], w.star[i] = has, text[0] == '*'
		texts = append(texts, text)
	}
	return strings.Join(texts, []string{" ", "\t", "  "}[r.IntN(3)]), w
}

// roundsOf are those of a schedule, as a job has them.
func roundsOf(t *testing.T, text string, from, to time.Time) (rounds []time.Time) {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for at, _ := e.Next(time.Time{}, from.Add(-time.Nanosecond)); at.Before(to) && !at.IsZero(); {
		if at.Location() != time.UTC {
			t.Fatalf("%s: %s is not in UTC", text, at)
		}
		rounds = append(rounds, at)
		at, _ = e.Next(time.Time{}, at)
	}
	return rounds
}

// sameRounds compares two lists of rounds.
func sameRounds(t *testing.T, text string, zone *time.Location, got, want []time.Time) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s in %s: no round at %s", text, zone, want[i].In(zone))
		case i >= len(want):
			t.Fatalf("%s in %s: a round at %s", text, zone, got[i].In(zone))
		case !got[i].Equal(want[i]):
			t.Fatalf("%s in %s: round %d is at %s, want %s", text, zone, i, got[i].In(zone),
				want[i].In(zone))
		}
	}
}

// changesOf are when the clocks of a zone change within a year.
func changesOf(zone *time.Location, from time.Time) (all []time.Time) {
	for at := from; ; {
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() || end.After(from.AddDate(1, 0, 0)) {
			return all
		}
		all, at = append(all, end), end
	}
}

func TestACrontabMeansWhatCronRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for _, name := range zonesTried {
		zone, err := time.LoadLocation(name)
		must.Succeed(t, err)
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		around := append(changesOf(zone, start), start.AddDate(0, 0, r.IntN(365)))
		for range 60 {
			text, w := randomCrontab(r)
			text = "CRON_TZ=" + name + " " + text
			if e, err := Parse(text); err != nil {
				if e.cron == nil && strings.Contains(err.Error(), "never comes") {
					continue
				}
				t.Fatal(err)
			}
			for _, at := range around {
				from, to := at.Add(-36*time.Hour), at.Add(36*time.Hour)
				sameRounds(t, text, zone, roundsOf(t, text, from, to), w.simulated(zone, from, to))
			}
		}
	}
}

// On the last day of a leap year Go has an end that lies before the time. A search for a day that
// never comes stood there for good.
func TestBoundsLieAroundATime(t *testing.T) {
	for _, name := range zonesTried {
		c, err := parseCrontab("CRON_TZ=" + name + " 0 3 30 2 *")
		must.Succeed(t, err)
		first := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		for at := first; at.Year() < 2127; at = at.AddDate(0, 0, 1) {
			begun, ends := c.bounds(at)
			if begun.After(at) || !ends.IsZero() && !ends.After(at) {
				t.Fatalf("%s: around %s are %s and %s", name, at, begun, ends)
			}
			if !ends.IsZero() && c.offset(ends.Add(-time.Nanosecond)) != c.offset(at) {
				t.Fatalf("%s: the clocks change between %s and %s", name, at, ends)
			}
		}
	}
}

// The lines are of the manual pages of Debian's cron and of cronie, and of what people write.
func TestRoundsOfWellKnownCrontabs(t *testing.T) {
	for _, c := range []struct{ every, after, next string }{
		{"5 0 * * *", "2026-11-27 00:00", "11-27 00:05, 11-28 00:05, 11-29 00:05"},
		{"15 14 1 * *", "2026-11-27 00:00", "12-01 14:15, 01-01 14:15, 02-01 14:15"},
		{"0 22 * * 1-5", "2026-11-27 00:00", "11-27 22:00, 11-30 22:00, 12-01 22:00"},
		{"23 0-23/2 * * *", "2026-11-27 00:00", "11-27 00:23, 11-27 02:23, 11-27 04:23"},
		{"5 4 * * sun", "2026-11-27 00:00", "11-29 04:05, 12-06 04:05, 12-13 04:05"},
		{"5 4 * * 7", "2026-11-27 00:00", "11-29 04:05, 12-06 04:05, 12-13 04:05"},
		{"0 0 * * 5-7", "2026-11-27 12:00", "11-28 00:00, 11-29 00:00, 12-04 00:00"},
		{"0 0 * * Fri-SUN", "2026-11-27 12:00", "11-28 00:00, 11-29 00:00, 12-04 00:00"},
		{"0 0 * * 0-7", "2026-11-27 12:00", "11-28 00:00, 11-29 00:00, 11-30 00:00"},
		{"0 0 * * MON-FRI", "2026-11-27 12:00", "11-30 00:00, 12-01 00:00, 12-02 00:00"},
		{"30 4 1,15 * 5", "2026-11-27 12:00", "12-01 04:30, 12-04 04:30, 12-11 04:30"}, // either
		// both: it begins with *
		{"0 0 */2 * 1", "2026-11-27 12:00", "12-07 00:00, 12-21 00:00, 01-11 00:00"},
		{"0 0 1-31/2 * 1", "2026-11-27 12:00", "11-29 00:00, 11-30 00:00, 12-01 00:00"},
		{"0 0 13 * *,1", "2026-11-27 12:00", "12-13 00:00, 01-13 00:00, 02-13 00:00"},
		{"*/40 * * * *", "2026-11-27 12:00", "11-27 12:40, 11-27 13:00, 11-27 13:40"},
		{"*/100 * * * *", "2026-11-27 12:00", "11-27 13:00, 11-27 14:00, 11-27 15:00"},
		{"\t007  08-010,12\t* *\t* ", "2026-11-27 09:00", "11-27 09:07, 11-27 10:07, 11-27 12:07"},
		{"0 0 1 jan,JUL *", "2026-11-27 12:00", "01-01 00:00, 07-01 00:00, 01-01 00:00"},
		{"0 0 29 2 *", "2096-03-01 00:00", "02-29 00:00, 02-29 00:00, 02-29 00:00"}, // 2100 has none
		{"CRON_TZ=Europe/Berlin 0 12 * * *", "2040-12-30 12:00", "12-31 11:00, 01-01 11:00, 01-02 11:00"},
		{"CRON_TZ=Europe/Berlin 0 3 29 2 0", "2040-12-31 12:00", "02-03 02:00, 02-10 02:00, 02-17 02:00"},
		{"0 0 29 2 */7", "2026-11-27 00:00", "02-29 00:00, 02-29 00:00, 02-29 00:00"},
		{"@hourly", "2026-11-27 12:30", "11-27 13:00, 11-27 14:00, 11-27 15:00"},
		{"@daily", "2026-11-27 12:30", "11-28 00:00, 11-29 00:00, 11-30 00:00"},
		{"CRON_TZ=Asia/Tokyo\t@midnight", "2026-11-27 12:30", "11-27 15:00, 11-28 15:00, 11-29 15:00"},
		{"@weekly", "2026-11-27 12:30", "11-29 00:00, 12-06 00:00, 12-13 00:00"},
		{"@monthly", "2026-11-27 12:30", "12-01 00:00, 01-01 00:00, 02-01 00:00"},
		{"@annually", "2026-11-27 12:30", "01-01 00:00, 01-01 00:00, 01-01 00:00"},
		// The clocks go from two to three, and from three to two.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28 12:00", "03-29 01:00, 03-30 00:30, 03-31 00:30"},
		{"CRON_TZ=Europe/Berlin */30 2 * * *", "2026-03-28 12:00",
			"03-30 00:00, 03-30 00:30, 03-31 00:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24 12:00", "10-25 00:30, 10-26 01:30, 10-27 01:30"},
		{"CRON_TZ=Europe/Berlin 30 */2 * * *", "2026-10-25 00:00",
			"10-25 00:30, 10-25 01:30, 10-25 03:30"},
		{"TZ=America/New_York 30 2 * * *", "2026-03-07 12:00", "03-08 07:00, 03-09 06:30, 03-10 06:30"},
		// From two to half past two, and to half past one.
		{"TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-02 18:00",
			"10-03 15:30, 10-04 15:15, 10-05 15:15"},
		{"TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04 12:00",
			"04-04 14:45, 04-05 15:15, 04-06 15:15"},
	} {
		e, err := Parse(c.every)
		if err != nil {
			t.Error(err)
			continue
		}
		at, err := time.Parse("2006-01-02 15:04", c.after)
		must.Succeed(t, err)
		var next []string
		for range 3 {
			at, _ = e.Next(time.Time{}, at)
			next = append(next, at.Format("01-02 15:04"))
		}
		if got := strings.Join(next, ", "); got != c.next {
			t.Errorf("%q after %s: %s, want %s", c.every, c.after, got, c.next)
		}
	}
}

func TestABadCrontabIsRefusedByField(t *testing.T) {
	for text, says := range map[string]string{
		"60 * * * *":                    `minute "60" (0 to 59): 60 is not 0 to 59`,
		"* 24 * * *":                    `hour "24" (0 to 23): 24 is not`,
		"* 99999999999999999999 * * *":  `is not 0 to 23`,
		"* * 0 * *":                     `day of month "0" (1 to 31)`,
		"* * * 13 *":                    `month "13" (1 to 12)`,
		"* * * * 8":                     `day of week "8" (0 to 7)`,
		"* * * january *":               `month "january" (1 to 12): "january" is neither a number nor one of jan, feb,`,
		"* * * * monday":                `day of week "monday" (0 to 7): "monday" is neither a number nor one of sun, mon,`,
		"5/15 * * * *":                  `minute "5/15" (0 to 59): a step follows a range or *, not one number: write 5-59/15`,
		"*/0 * * * *":                   `minute "*/0" (0 to 59): the step "0"`,
		"*/ * * * *":                    `the step ""`,
		"1-5/2/2 * * * *":               `the step "2/2"`,
		"*/-2 * * * *":                  `the step "-2"`,
		"* 22-6 * * *":                  `hour "22-6" (0 to 23): the range 22-6 ends before it begins: write 22-23,0-6`,
		"1, * * * *":                    `minute "1," (0 to 59): a part of the list is empty`,
		", * * * *":                     `a part of the list is empty`,
		"5- * * * *":                    `"" is not a number`,
		"-5 * * * *":                    `"" is not a number`,
		"1-5-7 * * * *":                 `"5-7" is not a number`,
		"+5 * * * *":                    `"+5" is not a number`,
		"0x5 * * * *":                   `"0x5" is not a number`,
		"*5 * * * *":                    `"*5" is not a number`,
		"*-5 * * * *":                   `"*" is not a number`,
		"0~59 * * * *":                  `"0~59" is not a number`,
		"? * * * *":                     `"?" is not a number`,
		"* * L * *":                     `day of month "L" (1 to 31): "L" is not a number`,
		"* * 15W * *":                   `day of month "15W"`,
		"* * * * 5#2":                   `day of week "5#2"`,
		"* * * * 5L":                    `day of week "5L"`,
		"61 25 * * *":                   `hour "25"`, // and the minute
		"0 0 3 * * *":                   "6 fields and not 5",
		"0 3 * *":                       "4 fields and not 5",
		"every day":                     "2 fields and not 5",
		"@reboot":                       `"@reboot" is none of @hourly`,
		"@every 15m":                    "a period is written as 15m",
		"@Daily":                        `"@Daily" is none of`,
		"@":                             `"@" is none of`,
		"0 3 30 2 *":                    "never comes",
		"TZ=Europe/Berlin 0 3 30 2 *":   "never comes",
		"0 3 31 4,6,9,11 */2":           "never comes",
		" ":                             "every is blank",
		"\t":                            "every is blank",
		"TZ=":                           "the time zone is empty",
		"CRON_TZ= 0 3 * * *":            "the time zone is empty",
		"TZ=Europe/Berlin":              "0 fields and not 5",
		"TZ=Europe/Berlin 15m":          "1 fields and not 5",
		"TZ=Nowhere/Unknown 0 3 * * *":  `time zone "Nowhere/Unknown"`,
		"TZ=Local 0 3 * * *":            "name the zone",
		"TZ=../../etc/passwd 0 3 * * *": "time zone",
		"0 3 * * *\n0 4 * * *":          "9 fields",
	} {
		if e, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is %+v, %v; want %q", text, e, err, says)
		}
	}
}

func FuzzACrontabIsReadOrRefused(f *testing.F) {
	f.Add("*/5 1-7/2,9 * jan-mar 5-7")
	f.Add("CRON_TZ=Europe/Berlin @daily")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil || e.cron == nil {
			return
		}
		now := time.Date(2026, 3, 29, 0, 59, 59, 0, time.UTC)
		if at, _ := e.Next(now, now); !at.After(now) {
			t.Errorf("%q: after %s comes %s", text, now, at)
		}
	})
}
