package fencetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/leak"
	"github.com/ringfence/ringfence/internal/test/must"
)

func deposeTakesTheExactToken(s *stage) {
	leader := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	depose := func(r fence.Resource, token fence.Token) bool {
		found, err := s.observer.Depose(s.ctx, r, token)
		if err != nil {
			s.Fatalf("depose %v: %v", token, err)
		}
		return found
	}
	for _, wrong := range []fence.Token{0, 1, leader.Token() - 1, s.token("b") + 1, math.MaxInt64} {
		if depose(s.resource, wrong) {
			s.Errorf("token %v was deposed; candidates are %+v", wrong, s.queue())
		}
	}
	if depose(s.anotherResource(), leader.Token()) {
		s.Error("the token was deposed of another resource")
	}
	s.wantState(leader, fence.Active)
	b.waits("while another leads")

	if !depose(s.resource, leader.Token()) {
		s.Error("the leader's token was not found")
	}
	s.ends(leader, s.SessionTimeout/2, fence.ErrDeposed) // notified, not timed out
	if depose(s.resource, leader.Token()) {
		s.Error("a token was deposed twice")
	}
	if next := b.term(); next.Token() <= leader.Token() {
		s.Errorf("token %v follows %v", next.Token(), leader.Token())
	}
}

func deposedCandidateEnrolsAgain(s *stage) {
	leader := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	c := s.enrol(s.open(), "c")
	old := s.token("b")
	if found, err := s.observer.Depose(s.ctx, s.resource, old); !found || err != nil {
		s.Fatalf("depose %v: %v, %v", old, found, err)
	}
	s.wantQueue("a", "c", "b")
	b.waits("after its candidacy was deposed")
	c.waits("after its predecessor was deposed")
	s.wantState(leader, fence.Active)
	s.resign(leader)
	s.resign(c.term())
	if term := b.term(); term.Token() <= old {
		s.Errorf("the deposed candidate leads with token %v; it had %v", term.Token(), old)
	}
}

func deposedLeaderCannotAcknowledge(s *stage) {
	leader := s.lead(s.open(), "a")
	_, err := s.observer.Depose(s.ctx, s.resource, leader.Token())
	must.Succeed(s, err)
	if err := leader.Acknowledge(s.ctx); err == nil {
		s.Error("a deposed leader has acknowledged")
	}
	s.wantQueue()
}

func closeLosesTerms(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	waiting := s.enrol(c, "b")
	for range 2 {
		if err := c.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
	s.ends(term, 0, fence.ErrLost)
	for range waiting.won {
		s.Error("a campaign of a closed client was won")
	}
	s.within(s.SessionTimeout/2, "the closed client's candidates are gone", func() bool {
		return len(s.queue()) == 0
	})
	if err := term.Resign(s.ctx); err != nil {
		s.Errorf("resign after Close: %v", err)
	}
	if _, err := c.Campaign(s.ctx, s.resource, "c"); err == nil {
		s.Error("a closed client campaigns")
	}
	if _, err := c.Candidates(s.ctx, s.resource); err == nil {
		s.Error("a closed client lists")
	}
	if _, leaders, err := c.Leaders(s.ctx, s.resource); err == nil {
		s.Errorf("a closed client names %+v", leaders)
	}
}

// closeLeavesNoGoroutine counts after the fixture has also cleaned up.
func closeLeavesNoGoroutine(t *testing.T, f Fixture) {
	before := goleak.IgnoreCurrent()
	t.Run("", func(t *testing.T) {
		s := newStage(t, f)
		c := s.open()
		s.lead(c, "a")
		s.enrol(c, "b")
		ctx, cancel := context.WithCancel(s.ctx)
		watching := make(chan error, 1)
		seen := make(chan struct{})
		go func() {
			first := true
			watching <- c.Watch(ctx, s.resource, func([]elector.Candidate) error {
				if first {
					first = false
					close(seen)
				}
				return nil
			})
		}()
		<-seen
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		cancel()
		if err := <-watching; err == nil {
			t.Error("Watch of a closed client ended without an error")
		}
	})
	must.Report(t, leak.Find(before))
}

func candidatesInOrder(s *stage) {
	if queue, err := s.observer.Candidates(s.ctx, s.resource); err != nil || len(queue) != 0 {
		s.Errorf("an election nobody entered has %+v, %v", queue, err)
	}
	term := s.lead(s.open(), "a")
	shared := s.open()
	s.enrol(shared, "b")
	s.enrol(s.open(), "c")
	s.enrol(shared, "d")
	queue := s.queue()
	if got := s.holders(); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		s.Errorf("the queue is %q", got)
	}
	if queue[0].Token != term.Token() {
		s.Errorf("the first of the queue has token %v, the leader %v", queue[0].Token, term.Token())
	}
	if !slices.IsSortedFunc(queue, func(x, y elector.Candidate) int {
		return x.Token.Compare(y.Token)
	}) {
		s.Errorf("the queue is not in order of token: %+v", queue)
	}
}

func onlyAcknowledgedIsReady(s *stage) {
	leader := s.lead(s.open(), "a")
	b := s.enrol(s.open(), "b")
	wantReady := func(want ...bool) {
		s.Helper()
		for i, c := range s.queue() {
			if c.Ready != want[i] {
				s.Errorf("%s is ready: %v; want %v", c.Holder, c.Ready, want[i])
			}
		}
	}
	wantReady(false, false)
	for range 2 { // again, as after a lost reply
		must.Succeed(s, leader.Acknowledge(s.ctx))
	}
	wantReady(true, false)
	s.resign(leader)
	next := b.term()
	wantReady(false)
	must.Succeed(s, next.Acknowledge(s.ctx))
	wantReady(true)
	s.resign(next)
}

func issuerIsOne(s *stage) {
	var issuers []fence.Issuer
	for range 2 {
		for _, c := range []elector.Coordinator{s.observer, s.open()} {
			issuer, err := c.Issuer(s.ctx)
			if err != nil || issuer == "" || issuer == elector.Unverified {
				s.Fatalf("the issuer is %q, %v", issuer, err)
			}
			issuers = append(issuers, issuer)
		}
		s.resign(s.lead(s.observer, "a"))
	}
	if distinct := slices.Compact(issuers); len(distinct) != 1 {
		s.Errorf("clients see the issuers %q", distinct)
	}
}

func badResourceIsRefused(s *stage) {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	for _, r := range []fence.Resource{"", "Orders", "../issuer", "a/b"} {
		_, campaign := s.observer.Campaign(ctx, r, "a")
		_, candidates := s.observer.Candidates(ctx, r)
		_, _, leaders := s.observer.Leaders(ctx, s.resource, r)
		_, depose := s.observer.Depose(ctx, r, 1)
		watch := s.observer.Watch(ctx, r, func([]elector.Candidate) error { return errors.New("called") })
		for call, err := range map[string]error{
			"Campaign": campaign, "Candidates": candidates, "Leaders": leaders, "Depose": depose,
			"Watch": watch,
		} {
			if !errors.Is(err, fence.ErrBadResource) {
				s.Errorf("%s of %q returned %v; want ErrBadResource", call, r, err)
			}
		}
	}
}
