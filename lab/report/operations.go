package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// mark is how an operation is drawn. Each mark has its own colour and shape.
type mark string

const (
	accepted mark = "accepted" // committed after a newer token: this must never happen
	stale    mark = "stale"    // refused because its token is older than the mark
	unknown  mark = "unknown"  // the process never learned the outcome
	other    mark = "other"    // refused for another reason, or failed
	ok       mark = "ok"
)

// operation is one attempt. It is drawn at the time at which its process knew the outcome, with a
// line from the time of sending.
type operation struct {
	ID      string  `json:"id"`
	Process string  `json:"process"`
	Lane    int     `json:"lane"`
	Row     int     `json:"row"`
	Sent    float64 `json:"sent"`
	At      float64 `json:"at"`
	Open    bool    `json:"open,omitempty"` // there was no answer; At is then the time of sending
	Token   int     `json:"token"`          // rank
	Do      string  `json:"do"`
	Store   string  `json:"store,omitempty"`
	Outcome string  `json:"outcome"`
	Mark    mark    `json:"mark"`
	Behind  bool    `json:"behind,omitempty"`  // sent after its store acknowledged a newer token
	Problem bool    `json:"problem,omitempty"` // a violation names it
	Place   int64   `json:"place,omitempty"`   // in its store's commit order, if it was committed
	Text    string  `json:"text,omitempty"`

	age history.Age
}

func (d *reading) readOperations() {
	for _, e := range d.events {
		switch e.Kind {
		case history.Invoke:
			d.invoke(e)
		case history.Return:
			d.answer(e)
		}
	}
	d.Ops = slices.AppendSeq([]*operation{}, maps.Values(d.byOp))
	slices.SortFunc(d.Ops, func(a, b *operation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.ID, b.ID))
	})
}

func (d *reading) invoke(e history.Event) *operation {
	o := &operation{
		ID: e.Op, Process: e.Process, Sent: d.ms(e.At), At: d.ms(e.At), Open: true,
		Token: d.rankOf(e.Token), Do: string(e.Do), Store: e.Store, Text: e.Text,
		Outcome: string(history.Unknown), Mark: unknown,
		age: d.history.AgeOf(e.Process, e.Token, e.At),
	}
	d.byOp[e.Op] = o
	return o
}

// answer accepts a Return without its Invoke too: the picture shows what the history has.
func (d *reading) answer(e history.Event) {
	o := d.byOp[e.Op]
	if o == nil {
		o = d.invoke(e)
	}
	o.At, o.Open, o.Outcome, o.Text = d.ms(e.At), false, string(e.Outcome), e.Text
	switch e.Outcome {
	case history.OK:
		o.Mark = ok
	case history.Stale:
		o.Mark = stale
	case history.Unknown:
		o.Mark = unknown
	default:
		o.Mark = other
	}
}

// judge marks what was committed after a newer token, which the databases and the checker know
// better than the process.
func (d *reading) judge(events []history.Event, problems []check.Problem) {
	newest := map[markOf]history.Age{}
	for _, e := range evidence(events) {
		mark := markOf{e.Store, e.Resource}
		age := d.history.AgeAfter(e.Token, newest[mark])
		if o := d.byOp[e.Op]; o != nil {
			o.Place = e.Place
			if o.age.Token == e.Token {
				age = o.age
			}
			if newest[mark].Newer(age) {
				o.Mark = accepted
			}
		}
		newest[mark] = history.Newest(newest[mark], age)
	}
	for _, p := range problems {
		o := d.byOp[p.Op]
		if o == nil {
			continue
		}
		o.Problem = true
		if (p.Invariant == "I1" || p.Invariant == "I2") && (o.Mark == ok || o.Mark == unknown) {
			o.Mark = accepted
		}
	}
}

// evidence returns what the databases hold, in the commit order of each.
func evidence(events []history.Event) []history.Event {
	var all []history.Event
	for _, e := range events {
		if e.Kind == history.Evidence {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b history.Event) int {
		return cmp.Compare(a.Place, b.Place)
	})
	return all
}

// mostDrawn bounds the acknowledged operations in the page, so that a run of an hour still opens.
const mostDrawn = 40_000

// thin leaves out unremarkable acknowledged operations, evenly, if there are too many.
func (d *reading) thin() {
	plain := 0
	for _, o := range d.Ops {
		if o.isPlain() {
			plain++
		}
	}
	d.OneIn = 1 + plain/mostDrawn
	if d.OneIn == 1 {
		return
	}
	n := 0
	d.Ops = slices.DeleteFunc(d.Ops, func(o *operation) bool {
		if !o.isPlain() {
			return false
		}
		n++
		return n%d.OneIn != 0
	})
}

func (o *operation) isPlain() bool {
	return o.Mark == ok && !o.Behind && !o.Problem && o.Do != string(history.Raise)
}
