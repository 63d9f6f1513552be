package report

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// drawing is the input of the page's script. Times are milliseconds since the start of the run. A
// token is given by its rank, because it may be above 2^53, the limit of JavaScript's numbers:
// Tokens[rank] is the number as text.
type drawing struct {
	From     float64      `json:"from"` // of the whole run, without what the databases hold
	To       float64      `json:"to"`
	Tokens   []string     `json:"tokens"`
	Lanes    []lane       `json:"lanes"`
	Bars     []bar        `json:"bars"`
	Bands    []band       `json:"bands"`
	Ops      []*operation `json:"ops"` // in the order of At
	Stairs   []stair      `json:"stairs"`
	Problems []location   `json:"problems"` // of the listed problems, in their order
	OneIn    int          `json:"-"`        // one in OneIn of the acknowledged operations is drawn
}

// location is where a problem is: at an operation, at a time, or (Op -1, At below 0) nowhere.
type location struct {
	Op int     `json:"op"` // index into Ops
	At float64 `json:"at"`
}

// reading makes a drawing of a history.
type reading struct {
	drawing
	events  []history.Event // of processes and of the lab, by time
	history history.Terms
	origin  int64 // of time, as in history.Event
	rank    map[fence.Token]int
	byOp    map[string]*operation
	faults  []fault
	terms   []termSpan
}

// read makes a drawing of a history. It tolerates errors: a broken history still gives a picture.
func read(events []history.Event, r check.Result) *reading {
	d := &reading{byOp: map[string]*operation{}}
	d.sortEvents(events)
	d.history = history.ReadTerms(d.events)
	d.rankTokens(events)
	d.readFaults()
	d.readOperations()
	d.judge(events, r.Problems)
	d.makeLanes()
	d.readTerms()
	d.makeBands()
	d.makeStairs()
	d.thin()
	d.findProblems(r.Problems)
	return d
}

// sortEvents keeps the events that have a time. Evidence has none: it is read after the run.
func (d *reading) sortEvents(events []history.Event) {
	for _, e := range events {
		switch e.Kind {
		case history.Run:
			d.origin = e.At
		case history.Invoke, history.Return, history.Term, history.Fault:
			d.events = append(d.events, e)
		}
	}
	slices.SortStableFunc(d.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	if len(d.events) == 0 {
		d.To = 1000
		return
	}
	first, last := d.events[0].At, d.events[len(d.events)-1].At
	if d.origin == 0 || d.origin > first {
		d.origin = first
	}
	margin := max(d.ms(last)-d.ms(first), 20) / 50
	d.From, d.To = max(0, d.ms(first)-margin), d.ms(last)+margin
}

// ms converts a time of the history to the page's milliseconds, to the microsecond.
func (d *reading) ms(at int64) float64 { return math.Round(float64(at-d.origin)/1e3) / 1e3 }

func (d *reading) rankTokens(events []history.Event) {
	d.rank = map[fence.Token]int{}
	for _, e := range events {
		for _, t := range []fence.Token{e.Token, e.Carried} {
			if t > 0 {
				d.rank[t] = 0
			}
		}
	}
	d.Tokens = []string{}
	for i, t := range slices.Sorted(maps.Keys(d.rank)) {
		d.rank[t] = i
		d.Tokens = append(d.Tokens, t.String())
	}
}

// rankOf returns -1 for an event without a token.
func (d *reading) rankOf(t fence.Token) int {
	if i, ok := d.rank[t]; ok {
		return i
	}
	return -1
}

// findProblems locates the problems that the page lists.
func (d *reading) findProblems(problems []check.Problem) {
	index := make(map[string]int, len(d.Ops))
	for i, o := range d.Ops {
		index[o.ID] = i
	}
	d.Problems = []location{}
	for _, p := range problems[:min(len(problems), mostProblems)] {
		s := location{Op: -1, At: -1}
		if i, ok := index[p.Op]; ok && p.Op != "" {
			s.Op, s.At = i, d.Ops[i].At
		} else if p.At > 0 {
			s.At = min(max(d.ms(p.At), d.From), d.To)
		}
		d.Problems = append(d.Problems, s)
	}
}
