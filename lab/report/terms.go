package report

import (
	"cmp"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// bar shows a state of a process.
type bar struct {
	Lane  int     `json:"lane"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	State string  `json:"state"` // standing, won, ready, lost
	Token int     `json:"token"` // rank
	Text  string  `json:"text,omitempty"`
}

// termSpan is a line in the table of terms. Times are in milliseconds; below 0 means never.
type termSpan struct {
	token            fence.Token
	process          string
	won, ready, over float64
	cause            string
	acknowledged     int
	refused          int // as stale
}

func (d *reading) readTerms() {
	d.Bars = []bar{}
	open := map[string]*bar{} // the present state of each process
	end := func(process string, at float64) {
		if b := open[process]; b != nil && at > b.From {
			b.To = at
			d.Bars = append(d.Bars, *b)
		}
		delete(open, process)
	}
	for _, e := range d.events {
		process := history.Worker(e.Process)
		switch {
		case e.Kind == history.Term && e.Key != "": // of a job: a worker has several at once
		case e.Kind == history.Term:
			end(process, d.ms(e.At))
			d.addToTerm(process, e)
			if e.State != history.Left {
				open[process] = &bar{
					Lane: d.laneOf(process), From: d.ms(e.At), State: string(e.State),
					Token: d.rankOf(e.Token), Text: e.Text,
				}
			}
		case e.Kind == history.Fault && e.State == history.Begin && kills(e):
			for _, t := range targets(e) {
				end(t, d.ms(e.At))
			}
		}
	}
	for process := range open {
		end(process, d.To)
	}
	slices.SortFunc(d.Bars, func(a, b bar) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.From, b.From))
	})
	d.countByTerm()
}

func (d *reading) addToTerm(process string, e history.Event) {
	if e.Token == 0 {
		return
	}
	i := slices.IndexFunc(d.terms, func(t termSpan) bool {
		return t.token == e.Token && t.process == process
	})
	if i < 0 {
		i = len(d.terms)
		d.terms = append(d.terms, termSpan{
			token: e.Token, process: process, won: -1, ready: -1, over: -1,
		})
	}
	t := &d.terms[i]
	switch e.State {
	case history.Won:
		t.won = d.ms(e.At)
	case history.Ready:
		t.ready = d.ms(e.At)
	case history.Lost, history.Left:
		if t.over < 0 {
			t.over, t.cause = d.ms(e.At), cmp.Or(e.Text, string(e.State))
		}
	}
}

func (d *reading) countByTerm() {
	acknowledged, refused := map[fence.Token]int{}, map[fence.Token]int{}
	for _, o := range d.Ops {
		switch {
		case o.Outcome == string(history.OK) && o.Do != string(history.Raise):
			acknowledged[o.age.Token]++
		case o.Mark == stale:
			refused[o.age.Token]++
		}
	}
	for i := range d.terms {
		t := &d.terms[i]
		t.acknowledged, t.refused = acknowledged[t.token], refused[t.token]
	}
	slices.SortStableFunc(d.terms, func(a, b termSpan) int { return cmp.Compare(a.token, b.token) })
}
