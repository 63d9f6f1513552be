package supervise

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

func TestKillComesBeforeTheDeadlineEvenIfTheStopBeginsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper := elector.NewTerm(fence.Claim{Resource: "orders", Token: 1}, time.Now(),
			10*time.Second, nil)
		defer keeper.Lose(fence.ErrDeposed)
		s := &Supervisor{Term: term, Grace: 2 * time.Second, Margin: 500 * time.Millisecond}
		for late, want := range map[time.Duration]time.Duration{
			0: 2 * time.Second, 7500 * time.Millisecond: 9500 * time.Millisecond,
			9 * time.Second: 9500 * time.Millisecond,
		} {
			begun := term.Deadline().Add(-10 * time.Second)
			if got := s.killAt(begun.Add(late), ErrOutOfTime); got != begun.Add(want) {
				t.Errorf("a stop that begins after %s kills after %s, want %s", late, got.Sub(begun), want)
			}
		}
	})
}

func TestKillComesAtOnceAfterAnExpiryAndAfterTheGraceOtherwise(t *testing.T) {
	for cause, want := range map[error]time.Duration{
		fence.ErrExpired: 0, fence.ErrDeposed: time.Minute,
	} {
		term, keeper := elector.NewTerm(fence.Claim{Resource: "orders", Token: 1}, time.Now(),
			10*time.Second, nil)
		keeper.Lose(cause)
		s := &Supervisor{Term: term, Grace: time.Minute, Margin: time.Second}
		now := time.Now()
		if got := s.killAt(now, cause); got != now.Add(want) {
			t.Errorf("%v: killed after %s, want %s", cause, got.Sub(now), want)
		}
	}
}

func TestGraceIsShortenedToFitTheGrantedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper := elector.NewTerm(fence.Claim{Resource: "orders", Token: 1}, time.Now(),
			10*time.Second, nil)
		defer keeper.Lose(fence.ErrDeposed)
		for asked, want := range map[time.Duration]time.Duration{
			2 * time.Second: 2 * time.Second, 20 * time.Second: 5 * time.Second,
		} {
			s := &Supervisor{
				Term: term, Grace: asked, Margin: time.Second, Log: slog.New(slog.DiscardHandler),
			}
			s.fitGrace()
			if s.Grace != want {
				t.Errorf("a grace of %s became %s, want %s", asked, s.Grace, want)
			}
		}
	})
}
