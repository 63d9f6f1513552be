package check

import (
	"strings"

	"github.com/ringfence/ringfence/lab/history"
)

// holder identifies a term by its worker, because a coordinator that has gone back gives a token to
// two.
type holder struct {
	worker string
	age    age
}

// won is a term that a worker has won.
type won struct {
	stood, at int64 // when the worker began to stand, and had won
	second    bool  // its token, or a higher one of the issuer, was ready before the worker stood
}

// wonTerms returns the terms of workers that say when they begin to stand.
//
// Frozen processes cannot make a term the second one: a worker records Ready after its token was
// given out, and Standing before it enrols.
func wonTerms(events []history.TermEvent) map[holder]won {
	all := map[holder]won{}
	stood, readyThen := map[string]int64{}, map[string]age{}
	var ready age
	for _, t := range events {
		worker := history.Worker(t.Process)
		switch t.State {
		case history.Standing:
			stood[worker], readyThen[worker] = t.At, ready
		case history.Ready:
			ready = history.Newest(ready, t.Age)
		case history.Won:
			if stood[worker] != 0 {
				before := readyThen[worker]
				second := before.Token != 0 && before.Epoch == t.Age.Epoch && !t.Age.Newer(before)
				all[holder{worker, t.Age}] = won{stood[worker], t.At, second}
			}
		}
	}
	return all
}

// goneBack checks I8: a coordinator that has gone back lets nobody write. Nothing is accepted under
// a second term. Once a store has refused one for that, nothing is accepted there under terms of
// this issuer for which workers began to stand later. A term from before may go on.
func (r *run) goneBack(f *findings, _ *Figures) {
	above := 0
	for _, store := range r.stores() {
		above += r.goneBackFor(store, f)
	}
	if above < r.expect.Above {
		f.doubt("%d attempts above the last token before the coordinator went back; a run counts from "+
			"%d on",
			above, r.expect.Above)
	}
}

// goneBackFor checks one store, and returns how many attempts it has refused to later terms.
func (r *run) goneBackFor(store string, f *findings) (above int) {
	terms := wonTerms(r.termsAbout(store))
	refused := r.refusedSecond(store, terms)
	for _, o := range r.of(store) {
		t, known := terms[holder{history.Worker(o.process), o.age}]
		if !known || o.invoked < t.at {
			continue
		}
		at, told := refused[o.age.Epoch]
		later := told && !t.second && t.stood > at
		switch {
		case later && o.otherIssuer():
			above++
		case o.ok() && t.second:
			f.atOp("I8", o, "%s: %s %s was accepted under token %s, which the coordinator has given "+
				"out a second time", store, o.do, o.id, o.token)
		case o.ok() && later:
			f.atOp("I8", o, "%s: %s %s was accepted under token %s, though the coordinator had gone "+
				"back, and the store had refused a leader for that %s before its candidate stood",
				store, o.do, o.id, o.token, between(at, t.stood))
		}
	}
	return above
}

// refusedSecond returns when a store first refused a second term, because the coordinator had gone
// back, by the epoch of the issuer.
func (r *run) refusedSecond(store string, terms map[holder]won) map[int]int64 {
	first := map[int]int64{}
	for _, o := range r.of(store) {
		t := terms[holder{history.Worker(o.process), o.age}]
		if !t.second || o.invoked < t.at || o.outcome != history.Refused || !o.otherIssuer() {
			continue
		}
		if at, ok := first[o.age.Epoch]; !ok || o.returned < at {
			first[o.age.Epoch] = o.returned
		}
	}
	return first
}

// otherIssuer reports whether the answer was RF004, or ISSUER of Redis.
func (o *op) otherIssuer() bool {
	return strings.HasPrefix(o.text, "RF004") || strings.HasPrefix(o.text, "ISSUER")
}
