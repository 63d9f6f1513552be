package worker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	terms "github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

func TestALeaderKeepsBothLedgersAndRecordsIt(t *testing.T) {
	s := newStage(t)
	for _, m := range []scenario.Manners{scenario.Reckless, scenario.Good} {
		c := s.config("worker-" + string(m))
		c.Manners = m
		r := s.start(c)
		token := r.leads(1)
		r.writes(25)
		if code := r.stop(); code != ExitDone {
			t.Errorf("exit code %d", code)
		}
		var states []history.State
		for _, e := range r.events(func(e history.Event) bool { return e.Kind == history.Term }) {
			states = append(states, e.State)
		}
		want := []history.State{history.Standing, history.Won, history.Ready, history.Left}
		if !slices.Equal(states, want) {
			t.Errorf("%q: the term went %v, want %v", m, states, want)
		}
		found := s.evidence()
		s.judge(r, found)
		for store, all := range found {
			if last := all[len(all)-1]; last.token != token ||
				!strings.HasPrefix(last.op, c.Name+".") {
				t.Errorf("%q: %s ends with %v", m, store, last)
			}
		}
		raises := r.events(func(e history.Event) bool {
			return e.Do == history.Raise && e.Token == token
		})
		if len(raises) != 4 || raises[1].Outcome != history.OK || raises[3].Outcome != history.OK {
			t.Errorf("%q: raises %+v", m, raises)
		}
	}
	var without int
	s.must(s.db.QueryRow(s.ctx,
		"select count(*) from ledger where carried is distinct from token::text").Scan(&without))
	if without != 0 {
		t.Errorf("%d entries were written by sessions that did not carry their token", without)
	}
}

func TestADeposedLeaderKeepsWritingAndAFenceRefusesIt(t *testing.T) {
	for _, route := range []scenario.Route{scenario.Guarded, scenario.Embedded, scenario.Direct} {
		t.Run(string(route), func(t *testing.T) {
			s := newStage(t)
			one, two := s.config("worker-1"), s.config("worker-2")
			if route != scenario.Guarded {
				one, two = s.direct(one, route), s.direct(two, route)
			}
			start := s.start
			if route == scenario.Direct {
				start = s.process
			}
			a := start(one)
			token := a.leads(1)
			a.writes(10)
			b := s.start(two)
			s.stands(2)
			if route == scenario.Direct { // or its late writes could end before its successor begins
				a.freeze()
			}
			s.depose(token)
			b.writes(10)
			if route == scenario.Direct {
				a.thaw()
			}
			s.await("it has left", func() bool { return len(a.terms(history.Left)) == 1 })
			lost := a.terms(history.Lost)
			if len(lost) != 1 {
				t.Fatalf("lost: %+v", lost)
			}
			superseded := route != scenario.Direct && strings.Contains(lost[0].Text, "superseded")
			if !strings.Contains(lost[0].Text, "deposed") && !superseded {
				t.Fatalf("lost: %+v", lost)
			}
			lasted := time.Duration(a.terms(history.Left)[0].At - lost[0].At)
			a.stop()
			b.stop()
			found := s.evidence()
			s.judge(a, found)
			s.judge(b, found)
			for _, store := range []string{"postgres", "redis"} {
				late, stale := behind(found[store]), a.returns(store, history.Stale)
				if route == scenario.Direct && (len(late) == 0 || len(stale) > 0) {
					t.Errorf("%s without a fence: %d entries came late, %d were refused",
						store, len(late), len(stale))
				}
				tooFew := len(stale) < refusals && lasted < maxLate/2
				if route != scenario.Direct && (len(late) > 0 || tooFew) {
					t.Errorf("%s: %d entries came late, %d were refused in %s: %v",
						store, len(late), len(stale), lasted, late)
				}
			}
		})
	}
}

// unreachable is a store that cannot be reached at first, and refuses later.
type unreachable struct{ until time.Time }

func (u unreachable) write(context.Context, string, fence.Token) result {
	if time.Now().Before(u.until) {
		return result{outcome: history.Failed}
	}
	return result{outcome: history.Stale, err: fence.ErrStale}
}

func (unreachable) close() {}

func TestADeposedLeaderTriesUntilItReachesTheStore(t *testing.T) {
	claim := fence.Claim{Resource: scenario.Resource, Token: 7}
	term, keeper := terms.NewTerm(claim, time.Now(), time.Minute, nothing{})
	keeper.Lose(fence.ErrDeposed)
	c := Config{Name: "worker-1", Route: scenario.Guarded, Pause: time.Millisecond}
	w := newWorker(c, func(history.Event) {}, newSignals())
	store := unreachable{time.Now().Add(maxLate + maxLate/4)}
	s := &writeLoop{w: w, store: "redis", writer: store, token: 7, term: term}
	if err := s.run(t.Context()); err != nil || s.stale != refusals {
		t.Errorf("it was refused %d times: %v", s.stale, err)
	}
}

func TestAGoodLeaderStopsWithItsTerm(t *testing.T) {
	s := newStage(t)
	c := s.config("worker-1")
	c.Manners = scenario.Good
	a := s.start(c)
	token := a.leads(1)
	a.writes(10)
	b := s.start(s.config("worker-2"))
	s.stands(2)
	s.depose(token)
	b.writes(10)
	s.await("it has left", func() bool { return len(a.terms(history.Left)) == 1 })
	for _, store := range []string{"postgres", "redis"} {
		if n := len(a.returns(store, history.Stale)); n > 1 {
			t.Errorf("it was refused %d times by %s", n, store)
		}
	}
	a.stop()
	b.stop()
	s.judge(a, s.evidence())
}
