package job

import (
	"testing"
	"time"
)

func TestTheFirstRoundOfAJobThatRepeatsIsDueWhenItsScheduleSaysSo(t *testing.T) {
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		every                string
		submitted, notBefore time.Duration
		want                 time.Duration // all after the beginning of the day
	}{
		{"", 9 * time.Hour, 0, 9 * time.Hour},
		{"15m", 9 * time.Hour, 0, 9 * time.Hour},
		{"15m", 9 * time.Hour, 10 * time.Hour, 10 * time.Hour},
		{"0 3 * * *", 9 * time.Hour, 0, 27 * time.Hour},
		{"0 3 * * *", 3 * time.Hour, 0, 3 * time.Hour},
		{"0 3 * * *", 9 * time.Hour, 50 * time.Hour, 51 * time.Hour},
		{"0 3 * * *", 9 * time.Hour, 51 * time.Hour, 51 * time.Hour},
	} {
		spec := Spec{Every: c.every}
		if c.notBefore > 0 {
			spec.NotBefore = day.Add(c.notBefore)
		}
		if got := spec.FirstDue(day.Add(c.submitted)).Sub(day); got != c.want {
			t.Errorf("%+v: it is due %s after midnight", c, got)
		}
	}
}

func TestRoundsAheadBeginWithTheNextOne(t *testing.T) {
	day := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		every     string
		notBefore time.Duration
		now       time.Duration
		want      time.Duration
	}{
		{"15m", 0, 0, 0}, {"15m", 0, time.Minute, 15 * time.Minute}, {"15m", time.Hour, 0, time.Hour},
		{"0 3 * * *", 0, 0, 3 * time.Hour}, {"0 3 * * *", 0, 3 * time.Hour, 3 * time.Hour},
		{"0 3 * * *", 0, 4 * time.Hour, 27 * time.Hour}, {"0 3 * * *", 24 * time.Hour, 0, 27 * time.Hour},
	} {
		ahead, err := Spec{Every: c.every, NotBefore: day.Add(c.notBefore)}.Calendar(day, day.Add(c.now))
		if err != nil || len(ahead.Rounds) != 3 || !ahead.Rounds[0].Equal(day.Add(c.want)) {
			t.Errorf("%+v: %+v, %v", c, ahead, err)
		}
	}
}
