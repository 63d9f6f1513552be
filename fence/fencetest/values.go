package fencetest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// The holder is free text. It must reach others as it is.
func holderIsAnyText(s *stage) {
	holder := "host-7 (pid 42): \"Jürgen's\"\n{\"ready\": true} \\ 漢字"
	term := s.lead(s.open(), holder)
	if term.Claim().Holder != holder {
		s.Errorf("the claim's holder is %q", term.Claim().Holder)
	}
	if holders := s.holders(); !slices.Equal(holders, []string{holder}) {
		s.Errorf("the candidates are %q", holders)
	}
	if queue := s.queue(); queue[0].Ready {
		s.Error("the leader is ready before it has acknowledged")
	}
	_, leaders, err := s.observer.Leaders(s.ctx, s.resource)
	if err != nil || leaders[0].Holder != holder {
		s.Errorf("the leader is %+v, %v", leaders, err)
	}
	w := s.watch(s.observer)
	w.sees(false, holder)
	s.resign(term)
}

// holderOfAnyLength leads under the shortest and the longest name.
func holderOfAnyLength(s *stage) {
	longest := strings.Repeat("\"漢", elector.MaxHolder/4) // JSON escapes the quotation mark
	if len(longest) != elector.MaxHolder {
		s.Fatalf("the longest holder has %d bytes, not %d", len(longest), elector.MaxHolder)
	}
	c := s.open()
	for _, holder := range []string{"", longest} {
		resource := s.anotherResource()
		term := s.campaign(c, resource, holder).term()
		if got := term.Claim().Holder; got != holder {
			s.Errorf("the claim of %q has the holder %q", holder, got)
		}
		if err := term.Acknowledge(s.ctx); err != nil {
			s.Errorf("acknowledge for %q: %v", holder, err)
		}
		want := elector.Candidate{
			Token: term.Token(), ID: term.Claim().Candidate, Holder: holder, Ready: true,
		}
		if queue, err := s.observer.Candidates(s.ctx, resource); err != nil ||
			!slices.Equal(queue, []elector.Candidate{want}) {
			s.Errorf("the candidates are %+v, %v; want %+v", queue, err, want)
		}
		_, leaders := s.leaders(s.observer, resource)
		if leaders[0].Token != want.Token || leaders[0].Holder != holder {
			s.Errorf("named is %+v; want %+v", leaders[0], want)
		}
		s.resign(term)
	}
}

// holderOverTheLimit is refused before anything is sent, so that the client's other terms go on.
func holderOverTheLimit(s *stage) {
	c := s.open()
	term := s.lead(c, "a")
	resource := s.resource
	for _, holder := range []string{
		strings.Repeat("a", elector.MaxHolder+1),
		strings.Repeat("a", 100*elector.MaxHolder), strings.Repeat("a", 4000*elector.MaxHolder),
		"host\xff", "host\x00",
	} {
		resource = s.anotherResource()
		ctx, cancel := context.WithTimeout(s.ctx, s.patience/3)
		_, err := c.Campaign(ctx, resource, holder)
		cancel()
		if !errors.Is(err, elector.ErrBadHolder) {
			s.Errorf("the campaign of a holder of %d bytes, %.20q, returned %v; want ErrBadHolder",
				len(holder), holder, err)
			continue
		}
		if len(err.Error()) > 300 {
			s.Errorf("the error has %d bytes", len(err.Error()))
		}
		if queue, err := s.observer.Candidates(s.ctx, resource); err != nil || len(queue) != 0 {
			s.Errorf("a refused holder left %d candidates, %v", len(queue), err)
		}
	}
	first := term.Deadline()
	s.eventually("the client's other term is confirmed", func() bool {
		return term.Deadline().After(first) || term.State() == fence.Lost
	})
	s.wantState(term, fence.Active)
	s.resign(s.campaign(c, resource, "b").term())
	s.resign(term)
}
