package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
)

const timeout = 10 * time.Second

var (
	errCut     = errors.New("the coordinator does not answer")
	errRefused = errors.New("wrong credentials")
)

// fake is a coordinator at which everybody leads.
type fake struct {
	campaigns *Campaigns[*fakeSession, *fakeCandidate]

	mu       sync.Mutex
	cut      bool
	refuses  bool
	asked    int
	opened   int
	closed   int
	beats    []time.Time
	entries  map[string]bool        // by key
	awaits   bool                   // nobody leads
	enrolled func(e *fakeCandidate) // called when an entry exists, before its reply; may be nil
	awaited  func(e *fakeCandidate) // called when a candidate leads; may be nil
}

type fakeSession struct {
	*Life[*fakeCandidate]
	f *fake
}

type fakeCandidate struct {
	Standing
	s *fakeSession
}

// run runs a test with a coordinator, in a bubble, and closes it.
func run(t *testing.T, test func(t *testing.T, f *fake)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{entries: map[string]bool{}}
		frame := NewFrame(Settings{
			Kind: "the fake", Refused: func(err error) bool { return errors.Is(err, errRefused) },
		})
		f.campaigns = New(frame, f.open)
		test(t, f)
		frame.End()
		frame.Wait()
		if f.opened != f.closed {
			t.Errorf("%d sessions were opened and %d closed", f.opened, f.closed)
		}
	})
}

// call makes a round trip.
func (f *fake) call(do func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	switch {
	case f.refuses:
		return errRefused
	case f.cut:
		return errCut
	}
	do()
	return nil
}

func (f *fake) set(do func()) { f.mu.Lock(); defer f.mu.Unlock(); do() }

// counts returns how many sessions were opened, and how many beats there were.
func (f *fake) counts() (opened, beats int) {
	f.set(func() { opened, beats = f.opened, len(f.beats) })
	return opened, beats
}

func (f *fake) open(context.Context) (s *fakeSession, err error) {
	err = f.call(func() {
		f.opened++
		s = &fakeSession{NewLife[*fakeCandidate](timeout, time.Now()), f}
	})
	return s, err
}

func (s *fakeSession) Candidate(r fence.Resource, holder string) *fakeCandidate {
	key := fmt.Sprintf("%s/%s/%d", r, holder, time.Now().UnixNano())
	return &fakeCandidate{Standing: Standing{Resource: r, Holder: holder, Key: key}, s: s}
}

func (s *fakeSession) Beat(start time.Time) error {
	members := s.Enrolled()
	return s.f.call(func() {
		s.f.beats = append(s.f.beats, start)
		s.Life.Confirm(start)
		for _, e := range members {
			if s.f.entries[e.Key] {
				e.Confirm(start)
			} else {
				e.Lose(fence.ErrDeposed)
			}
		}
		for key := range s.f.entries {
			if !s.Knows(key) {
				delete(s.f.entries, key)
			}
		}
	})
}

func (s *fakeSession) Close() { s.f.set(func() { s.f.closed++ }) }

func (e *fakeCandidate) Enrol(context.Context) (token fence.Token, err error) {
	err = e.s.f.call(func() { e.s.f.entries[e.Key] = true })
	if e.s.f.enrolled != nil {
		e.s.f.enrolled(e)
	}
	return fence.Token(time.Now().UnixNano()), err
}

func (e *fakeCandidate) Await(ctx context.Context) (fence.Issuer, time.Time, error) {
	if e.s.f.awaits {
		<-ctx.Done()
		return "", time.Time{}, context.Cause(ctx)
	}
	renewed, err := e.s.Renewed(ctx)
	if e.s.f.awaited != nil {
		e.s.f.awaited(e)
	}
	return "fake", renewed, err
}

func (e *fakeCandidate) Watch(context.Context)             {}
func (e *fakeCandidate) Leave()                            { e.s.Leave(e.Key) }
func (e *fakeCandidate) Acknowledge(context.Context) error { return nil }

func (e *fakeCandidate) Release(context.Context) error {
	e.Leave()
	return nil
}

func win(t *testing.T, f *fake, r fence.Resource) *fence.Term {
	t.Helper()
	term, err := f.campaigns.Campaign(t.Context(), r, "a")
	if err != nil {
		t.Fatal(err)
	}
	return term
}

func wantLost(t *testing.T, term *fence.Term, cause error) {
	t.Helper()
	if got := context.Cause(term.Context()); !errors.Is(got, cause) {
		t.Errorf("the term is %v, %v; want %v", term.State(), got, cause)
	}
}

func (f *fake) keys() (keys []string) {
	f.set(func() {
		for key := range f.entries {
			keys = append(keys, key)
		}
	})
	return keys
}

func TestAllTermsOfAProcessLiveInOneSession(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		var terms []*fence.Term
		for i := range 100 {
			terms = append(terms, win(t, f, fence.Resource(fmt.Sprint("r", i))))
		}
		time.Sleep(3 * timeout)
		synctest.Wait()
		if opened, beats := f.counts(); opened != 1 || beats > 20 {
			t.Errorf("%d sessions and %d beats", opened, beats)
		}
		for _, term := range terms {
			if left := time.Until(term.Deadline()); left < timeout*3/4 {
				t.Errorf("%v has %v left", term.Claim(), left)
			}
		}
	})
}

func TestASessionThatIsOverIsReplaced(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		term := win(t, f, "orders")
		f.campaigns.Current().End(fmt.Errorf("%w: test", fence.ErrExpired))
		wantLost(t, term, fence.ErrExpired)
		next := win(t, f, "orders")
		if opened, _ := f.counts(); next.State() != fence.Active || opened != 2 {
			t.Errorf("the next term is %v, after %d sessions", next.State(), opened)
		}
	})
}

func TestTermsAreSuspendedWithoutAnAnswerAndLostAfterTheTimeout(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		term := win(t, f, "orders")
		s := f.campaigns.Current()
		f.set(func() { f.cut = true })
		time.Sleep(timeout / 2)
		synctest.Wait()
		if state := term.State(); state != fence.Suspended {
			t.Errorf("the term is %v", state)
		}
		f.set(func() { f.cut = false })
		time.Sleep(timeout / 20)
		synctest.Wait()
		if state := term.State(); state != fence.Active {
			t.Errorf("the term is %v soon after the coordinator is back", state)
		}
		f.set(func() { f.cut = true })
		time.Sleep(timeout * 11 / 10)
		synctest.Wait()
		wantLost(t, term, fence.ErrExpired)
		if cause := s.Ended(); !errors.Is(cause, fence.ErrExpired) {
			t.Errorf("the session has ended with %v", cause)
		}
		f.set(func() { f.cut = false })
	})
}

// The session or the candidate may end at any moment before the term exists to hear of it.
func TestALostCandidateWinsNoTerm(t *testing.T) {
	end := func(e *fakeCandidate) { e.s.End(fence.ErrExpired) }
	depose := func(e *fakeCandidate) { e.Lose(fence.ErrDeposed) }
	for _, c := range []struct {
		name              string
		enrolled, awaited func(*fakeCandidate)
	}{
		{"the session ends during the enrolment", end, nil},
		{"the session ends before the term begins", nil, end},
		{"the candidate is deposed before the term begins", nil, depose},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, func(t *testing.T, f *fake) {
				var lost *fakeCandidate
				first := func(do func(*fakeCandidate)) func(*fakeCandidate) {
					return func(e *fakeCandidate) {
						if do != nil && (lost == nil || lost == e) {
							lost = e
							do(e)
						}
					}
				}
				f.enrolled, f.awaited = first(c.enrolled), first(c.awaited)
				term := win(t, f, "orders")
				if term.Token() == lost.Token() || term.State() != fence.Active {
					t.Errorf("%v is %v; the lost candidate had %v", term.Claim(), term.State(),
						lost.Token())
				}
			})
		})
	}
}

func TestASweepSparesAnEnrolmentUnderWay(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		f.enrolled = func(*fakeCandidate) { time.Sleep(timeout) } // beats go on meanwhile
		term := win(t, f, "orders")
		if _, beats := f.counts(); beats < 3 || term.State() != fence.Active {
			t.Errorf("after %d beats the term is %v", beats, term.State())
		}
	})
}

func TestWhatACampaignLeavesIsSwept(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		ctx, cancel := context.WithCancel(t.Context())
		f.awaits = true
		go func() {
			synctest.Wait() // until it waits
			f.set(func() { f.cut = true })
			cancel()
		}()
		if term, err := f.campaigns.Campaign(ctx, "orders", "a"); err == nil {
			t.Fatalf("%v was won", term.Claim())
		}
		if len(f.keys()) != 1 {
			t.Fatalf("the coordinator has %q, so this test proves nothing", f.keys())
		}
		f.set(func() { f.cut = false })
		time.Sleep(timeout / 20)
		synctest.Wait()
		if keys := f.keys(); len(keys) != 0 {
			t.Errorf("the campaign has left %q", keys)
		}
	})
}

func TestALostTermLeavesAndAResignedOneKeepsItsPlace(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		deposed, superseded := win(t, f, "orders"), win(t, f, "stock")
		f.set(func() {
			for key := range f.entries {
				if key[:1] == "o" {
					delete(f.entries, key)
				}
			}
		})
		superseded.Supersede(errors.New("a store says so"))
		time.Sleep(timeout)
		synctest.Wait()
		wantLost(t, deposed, fence.ErrDeposed)
		if keys := f.keys(); len(keys) != 1 || keys[0][:1] != "s" {
			t.Errorf("the coordinator has %q", keys)
		}
		if err := superseded.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if keys := f.keys(); len(keys) != 0 {
			t.Errorf("after the release the coordinator has %q", keys)
		}
	})
}

func TestACampaignEndsWithARefusalOrWithTheLastFailure(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		f.set(func() { f.refuses = true })
		if _, err := f.campaigns.Campaign(t.Context(), "orders", "a"); !errors.Is(err, errRefused) {
			t.Errorf("the campaign ended with %v", err)
		}
		f.set(func() { f.refuses, f.cut = false, true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := f.campaigns.Campaign(ctx, "orders", "a")
		if !errors.Is(err, errCut) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the campaign ended with %v", err)
		}
	})
}
