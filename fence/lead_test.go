package fence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// stage is an elector with one term, two stores, and the order in which they were called.
type stage struct {
	backing
	term     *fence.Term
	keeper   *elector.Keeper
	campaign error
	raise    map[string]error
	onRaise  func()

	logMu sync.Mutex
	steps []string
}

func (s *stage) step(what string) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	s.steps = append(s.steps, what)
}

func (s *stage) Campaign(_ context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	if s.campaign != nil {
		return nil, s.campaign
	}
	s.log = s.step
	claim := fence.Claim{Resource: r, Token: 33, Issuer: "test:1", Holder: holder}
	s.term, s.keeper = elector.NewTerm(claim, time.Now(), timeout, &s.backing)
	return s.term, nil
}

func (s *stage) Depose(context.Context, fence.Resource, fence.Token) (bool, error) {
	return false, nil
}

type raiser struct {
	name string
	s    *stage
}

func (r raiser) Raise(_ context.Context, c fence.Claim) error {
	r.s.step(fmt.Sprintf("raise %s %v", r.name, c))
	if r.s.onRaise != nil {
		r.s.onRaise()
	}
	return r.s.raise[r.name]
}

func (s *stage) lead() fence.Lead {
	return fence.Lead{Elector: s, Resource: "orders", Holder: "a",
		Stores: []fence.Raiser{raiser{"pg", s}, raiser{"redis", s}}}
}

func (s *stage) work(context.Context, *fence.Term) error {
	s.step("work")
	return nil
}

func (s *stage) want(t *testing.T, steps ...string) {
	t.Helper()
	if !slices.Equal(s.steps, steps) {
		t.Errorf("steps were %q\nwant %q", s.steps, steps)
	}
}

func TestALeaderRaisesThenAcknowledgesThenWorksThenResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stage)
		if err := s.lead().Run(t.Context(), s.work); err != nil {
			t.Errorf("Run = %v", err)
		}
		s.want(t, "raise pg orders=33", "raise redis orders=33", "acknowledge", "work", "release")
		wantLost(t, s.term, fence.ErrResigned)
	})
}

func TestALeaderForWhomNobodyWaitsDoesNotAcknowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stage)
		lead := s.lead()
		lead.Unacknowledged = true
		if err := lead.Run(t.Context(), s.work); err != nil {
			t.Errorf("Run = %v", err)
		}
		s.want(t, "raise pg orders=33", "raise redis orders=33", "work", "release")
	})
}

func TestAFailedCampaignIsRunsError(t *testing.T) {
	s := &stage{campaign: context.Canceled}
	if err := s.lead().Run(t.Context(), s.work); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	s.want(t)
}

func TestAPartialRaiseIsNotLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{raise: map[string]error{"redis": fence.ErrUnrevoked}}
		err := s.lead().Run(t.Context(), s.work)
		if !errors.Is(err, fence.ErrUnrevoked) || errors.Is(err, fence.ErrLost) {
			t.Errorf("Run = %v; want the raise's own error only", err)
		}
		s.want(t, "raise pg orders=33", "raise redis orders=33", "release")
	})
}

func TestAStaleRaiseSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{raise: map[string]error{"pg": &fence.Refusal{Reason: fence.ErrStale, Mark: 34}}}
		err := s.lead().Run(t.Context(), s.work)
		if !errors.Is(err, fence.ErrSuperseded) || !errors.Is(err, fence.ErrStale) {
			t.Errorf("Run = %v; want ErrSuperseded", err)
		}
		s.want(t, "raise pg orders=33", "release")
		wantLost(t, s.term, fence.ErrSuperseded)
	})
}

func TestWithoutAcknowledgementThereIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		s := &stage{backing: backing{failAcknowledge: gone}}
		if err := s.lead().Run(t.Context(), s.work); !errors.Is(err, gone) {
			t.Errorf("Run = %v", err)
		}
		s.want(t, "raise pg orders=33", "raise redis orders=33", "acknowledge", "release")
	})
}

func TestStaleWorkSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stage)
		err := s.lead().Run(t.Context(), func(context.Context, *fence.Term) error {
			return fmt.Errorf("insert: %w", fence.ErrStale)
		})
		if !errors.Is(err, fence.ErrSuperseded) || !errors.Is(err, fence.ErrStale) {
			t.Errorf("Run = %v; want ErrSuperseded", err)
		}
		wantLost(t, s.term, fence.ErrSuperseded)
	})
}

// Work may use another resource, under another term.
func TestWorkThatIsStaleOnAnotherResourceIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stage)
		foreign := &fence.Refusal{Reason: fence.ErrStale, Claim: fence.Claim{Resource: "stock", Token: 3}}
		err := s.lead().Run(t.Context(), func(context.Context, *fence.Term) error { return foreign })
		if !errors.Is(err, foreign) || errors.Is(err, fence.ErrLost) {
			t.Errorf("Run = %v; want the work's own error only", err)
		}
	})
}

func TestWorksOwnErrorIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stage)
		bug := errors.New("bug")
		err := s.lead().Run(t.Context(), func(context.Context, *fence.Term) error { return bug })
		if !errors.Is(err, bug) || errors.Is(err, fence.ErrLost) {
			t.Errorf("Run = %v; want the work's own error only", err)
		}
	})
}

func TestALossCancelsWorkWithItsCauseAndWaitsForIt(t *testing.T) {
	for _, cause := range []error{fence.ErrDeposed, fence.ErrExpired} {
		synctest.Test(t, func(t *testing.T) {
			s := new(stage)
			err := s.lead().Run(t.Context(), func(ctx context.Context, term *fence.Term) error {
				if cause == fence.ErrDeposed {
					s.keeper.Lose(cause)
				} // else: nobody confirms, and the deadline comes
				<-ctx.Done()
				if got := context.Cause(ctx); !errors.Is(got, cause) {
					t.Errorf("work's context ended with %v; want %v", got, cause)
				}
				time.Sleep(time.Minute) // it drains
				s.step("drained")
				return context.Cause(ctx)
			})
			if !errors.Is(err, cause) || !errors.Is(err, fence.ErrLost) {
				t.Errorf("Run = %v; want %v", err, cause)
			}
			if strings.Count(err.Error(), cause.Error()) != 1 {
				t.Errorf("Run = %q; want the cause once", err)
			}
			s.want(t, "raise pg orders=33", "raise redis orders=33", "acknowledge", "drained", "release")
		})
	}
}

func TestALossDuringTheRaiseIsNotLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stage)
		s.onRaise = func() { s.keeper.Lose(fence.ErrDeposed) }
		if err := s.lead().Run(t.Context(), s.work); !errors.Is(err, fence.ErrDeposed) {
			t.Errorf("Run = %v; want ErrDeposed", err)
		}
		if slices.Contains(s.steps, "work") || s.acknowledged != 0 {
			t.Errorf("a lost term continued: %q", s.steps)
		}
	})
}

func TestCancelledRunStopsWorkAndStillResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(stage)
		shutdown := errors.New("shutdown")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := s.lead().Run(ctx, func(ctx context.Context, _ *fence.Term) error {
			cancel(shutdown)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, shutdown) || errors.Is(err, fence.ErrLost) {
			t.Errorf("Run = %v", err)
		}
		if s.released != 1 {
			t.Errorf("released %d times", s.released)
		}
	})
}

func TestAFailedResignIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unreachable := errors.New("unreachable")
		s := &stage{backing: backing{failRelease: unreachable}}
		if err := s.lead().Run(t.Context(), s.work); !errors.Is(err, unreachable) {
			t.Errorf("Run = %v", err)
		}
	})
}
