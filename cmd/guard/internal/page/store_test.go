package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// start is when a test's marks begin.
var start = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// fresh is a page with two stores that nobody reads.
func fresh() (p *Page, postgres, redis func(marks.Event)) {
	p = New(Options{Guard: "guard-1"})
	postgres, _ = p.Watch(empty("postgres"))
	redis, _ = p.Watch(empty("redis"))
	return p, postgres, redis
}

// of returns the store with a name.
func (p *Page) of(name string) *store {
	i := slices.IndexFunc(p.stores, func(s *store) bool { return s.Store == name })
	return p.stores[i]
}

// mark returns the mark in a store.
func (r Resource) mark(store string) guard.MarkRow {
	i := slices.IndexFunc(r.Marks, func(m guard.MarkRow) bool { return m.Store == store })
	return r.Marks[i]
}

// empty is a store without sessions and refusals.
func empty(name string) guard.Source {
	return guard.Source{
		Location: guard.Location{Store: name}, Sessions: func() []marks.OpenSession { return nil },
		Refusals: func() []guard.RefusalRow { return nil },
	}
}

func claim(r fence.Resource, t fence.Token) fence.Claim {
	return fence.Claim{Resource: r, Token: t, Issuer: "zk:one", Holder: "host-a"}
}

// session is one that was admitted at the start of the test, or so many seconds later.
func session(c fence.Claim, later int) marks.OpenSession {
	return marks.OpenSession{
		Claim:   marks.Presented{Resource: c.Resource, Token: c.Token, Holder: c.Holder},
		Session: marks.SessionID{ID: int64(later)}, Since: start.Add(time.Duration(later) * time.Second),
	}
}

// many are marks of which each was raised a second after the one before.
func many(n int) (all []marks.Mark) {
	for i := range n {
		all = append(all, marks.Mark{
			Resource: fence.Resource(fmt.Sprintf("r_%d", i)), Token: fence.Token(i + 1), Issuer: "zk:one",
			Holder: "h", Raised: start.Add(time.Duration(i) * time.Second), Sessions: 2,
		})
	}
	return all
}

func TestTheStateHoldsWhatHappened(t *testing.T) {
	p, postgres, redis := fresh()
	postgres(marks.Event{Kind: marks.Raised, Claim: claim("orders", 5)})
	postgres(marks.Event{Kind: marks.Raised, Claim: claim("orders", 5)}) // confirmed after a restart
	postgres(marks.Event{Kind: marks.Raised, Claim: claim("orders", 9)})
	redis(marks.Event{Kind: marks.Raised, Claim: claim("orders", 7)})
	p.of("postgres").Sessions = func() []marks.OpenSession {
		return []marks.OpenSession{session(claim("orders", 9), 1), session(claim("orders", 9), 2)}
	}
	p.of("redis").Refusals = func() []guard.RefusalRow {
		return []guard.RefusalRow{{
			Resource: "orders", Token: 5, Holder: "host-a", Mark: 7, Reason: "stale", At: start, Count: 3,
		}}
	}
	p.of("postgres").Refusals = func() []guard.RefusalRow {
		return []guard.RefusalRow{{Reason: "error", At: start.Add(time.Second), Count: 1}}
	}

	s := p.state()
	if len(s.Resources) != 1 || len(s.Resources[0].Marks) != 2 ||
		s.Resources[0].mark("redis").Token != 7 ||
		s.Resources[0].mark("postgres").Token != 9 {
		t.Fatalf("resources: %+v", s.Resources)
	}
	if terms := s.Resources[0].Terms; len(terms) != 3 || terms[0].Token != 5 || terms[1].Token != 9 ||
		terms[2].Token != 7 {
		t.Errorf("terms: %+v", terms)
	}
	if s.Open != 2 || len(s.Sessions) != 2 || s.Sessions[0].Token != 9 ||
		s.Sessions[0].Holder != "host-a" {
		t.Errorf("%d sessions: %+v", s.Open, s.Sessions)
	}
	if len(s.Refusals) != 2 || s.Refusals[1].Mark != 7 || s.Refusals[1].Token != 5 ||
		s.Refusals[1].Reason != "stale" || s.Refusals[1].Holder != "host-a" ||
		s.Refusals[1].Count != 3 || s.Refusals[0].Reason != "error" {
		t.Errorf("refusals: %+v", s.Refusals)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(text), `"token":"9"`) {
		t.Errorf("a token is not a string, so a browser could round it: %s", text)
	}
}

func TestClientsCannotFillTheMemoryOrTheMessage(t *testing.T) {
	p, postgres, _ := fresh()
	long := strings.Repeat("é", 600)
	var sessions []marks.OpenSession
	var refusals []guard.RefusalRow
	for i := range 5000 {
		c := claim(fence.Resource(fmt.Sprintf("invented_%d", i)), fence.Token(i+1))
		c.Holder = long
		postgres(marks.Event{Kind: marks.Raised, Claim: c})
		sessions = append(sessions, session(c, i))
		refusals = append(refusals, guard.RefusalRow{
			Resource: c.Resource, Token: c.Token, Holder: c.Holder, Message: long, Mark: 7, Reason: "stale",
			Count: 1,
		})
		orders := c
		orders.Resource = "orders"
		postgres(marks.Event{Kind: marks.Raised, Claim: orders})
	}
	p.of("postgres").Sessions = func() []marks.OpenSession { return sessions }
	p.of("postgres").Refusals = func() []guard.RefusalRow { return refusals }
	one := p.of("postgres").resources
	if len(one) != maxResources || len(one["orders"].steps) != maxSteps {
		t.Errorf("%d resources, %d steps", len(one), len(one["orders"].steps))
	}
	s := p.state()
	if s.Open != 5000 || len(s.Sessions) != maxSessions || s.Sessions[0].Token != 5000 ||
		len(s.Refusals) != maxRefusals || s.Resources[0].Resource != "orders" ||
		s.Resources[0].Terms[maxSteps-1].Token != 5000 {
		t.Errorf("%d sessions open, %d shown, %d refusals, %+v", s.Open, len(s.Sessions), len(s.Refusals),
			s.Resources[0])
	}
	if text, _ := json.Marshal(s); len(text) > 200<<10 {
		t.Errorf("a message has %d bytes", len(text))
	}
}

func TestOfVeryManyMarksThoseThatChangedLastAreShown(t *testing.T) {
	p, _, _ := fresh()
	all := many(10_000)
	p.marks(p.of("postgres"), slices.Clone(all), "")
	s := p.state()
	if s.Stores[0].Marks != 10_000 || s.Stores[0].Sessions != 20_000 ||
		len(s.Resources) != maxResources || s.Resources[0].Resource != "r_9999" ||
		s.Resources[maxResources-1].Resource != "r_9950" || s.Resources[0].Marks[0].Sessions != 2 {
		t.Errorf("%+v, %d resources, the first %+v", s.Stores[0], len(s.Resources), s.Resources[0])
	}
	all[3].Token, all[3].Raised = 77_777, start.Add(24*time.Hour) // by another guard
	all[9_999].Sessions = 5
	p.marks(p.of("postgres"), all, "")
	s = p.state()
	if s.Resources[0].Resource != "r_3" || s.Resources[1].Marks[0].Sessions != 5 ||
		len(s.Resources) != maxResources {
		t.Errorf("%d resources: %+v", len(s.Resources), s.Resources[:2])
	}
}

// A read that began before a raise must not take it back.
func TestAReadTakesNoTokenBackExceptAfterAnAdoption(t *testing.T) {
	p, postgres, _ := fresh()
	postgres(marks.Event{Kind: marks.Raised, Claim: claim("orders", 9)})
	old := marks.Mark{Resource: "orders", Token: 5, Issuer: "zk:one", Raised: start, Sessions: 3}
	p.marks(p.of("postgres"), []marks.Mark{old}, "")
	if r := p.state().Resources[0]; r.Marks[0].Token != 9 || len(r.Terms) != 1 ||
		r.Marks[0].Sessions != 3 {
		t.Errorf("after a late read: %+v", r)
	}
	old.Issuer = "zk:two"
	p.marks(p.of("postgres"), []marks.Mark{old}, "")
	if r := p.state().Resources[0]; r.Marks[0].Token != 5 || len(r.Terms) != 2 {
		t.Errorf("after an adoption: %+v", r)
	}
}

func TestStreamsAreWokenByNewsOnly(t *testing.T) {
	p, postgres, _ := fresh()
	woken := func(do func()) bool {
		next := p.next()
		do()
		select {
		case <-next:
			return true
		default:
			return false
		}
	}
	failure := errors.New("connection refused")
	for i, step := range []struct {
		do   func()
		news bool
	}{
		{func() { p.marks(p.of("postgres"), many(3), "") }, true},
		{func() { p.marks(p.of("postgres"), many(3), "") }, false},
		{func() { p.failed(p.of("postgres"), failure) }, true},
		{func() { p.failed(p.of("postgres"), failure) }, false},
		{func() { p.marks(p.of("postgres"), many(3), "") }, true},
		{func() { p.marks(p.of("postgres"), many(2), "") }, true},
		{func() { p.marks(p.of("postgres"), many(2), "a trial fences nothing") }, true},
		{func() { postgres(marks.Event{Kind: marks.Raised, Claim: claim("orders", 5)}) }, true},
		{func() { postgres(marks.Event{Kind: marks.Opened, Claim: claim("orders", 5)}) }, true},
		{func() { postgres(marks.Event{Kind: marks.Closed, Claim: claim("orders", 5)}) }, true},
		{func() { postgres(marks.Event{Kind: marks.Refused, Claim: claim("orders", 5)}) }, true},
		{func() { postgres(marks.Event{Kind: marks.Finished, Claim: claim("orders", 5)}) }, false},
	} {
		if woken(step.do) != step.news {
			t.Errorf("step %d: news should be %t", i, step.news)
		}
	}
}
