package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// drawing is what the page's script draws. Times are milliseconds since the run's start. Tokens go by rank, because they
// may be beyond 2^53, which JavaScript cannot count to: Tokens[rank] is the number as text.
type drawing struct {
	From     float64      `json:"from"` // the whole run: from the first thing that a process or the lab did
	To       float64      `json:"to"`
	Tokens   []string     `json:"tokens"`
	Lanes    []lane       `json:"lanes"`
	Bars     []bar        `json:"bars"`
	Bands    []band       `json:"bands"`
	Ops      []*operation `json:"ops"` // in the order of At
	Stairs   []stair      `json:"stairs"`
	Problems []spot       `json:"problems"` // of the listed problems, in their order
	OneIn    int          `json:"-"`        // of the acknowledged operations, one in so many is drawn
}

// spot is where a problem is: at an operation, at a time, or (Op -1, At below 0) nowhere.
type spot struct {
	Op int     `json:"op"` // index into Ops
	At float64 `json:"at"`
}

// reading is a history on its way to a drawing.
type reading struct {
	drawing
	events []history.Event // of processes and of the lab, in the order of time
	ages   history.Ages
	origin int64 // of time, as in history.Event
	rank   map[fence.Token]int
	byOp   map[string]*operation
	faults []fault
	terms  []termSpan
}

// read makes a drawing of a history. It takes what it is given: a broken history still makes a picture.
func read(events []history.Event, r check.Result) *reading {
	d := &reading{byOp: map[string]*operation{}}
	d.sortEvents(events)
	d.ages = history.Date(d.events)
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

// sortEvents keeps what has a time: evidence is read after the run, and its order is not one of time.
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

// ms is a time of the history on the axis of the page, to the microsecond.
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
	all := make([]fence.Token, 0, len(d.rank))
	for t := range d.rank {
		all = append(all, t)
	}
	slices.Sort(all)
	for i, t := range all {
		d.rank[t] = i
		d.Tokens = append(d.Tokens, t.String())
	}
}

// rankOf is -1 for an event without a token.
func (d *reading) rankOf(t fence.Token) int {
	if i, ok := d.rank[t]; ok {
		return i
	}
	return -1
}

// findProblems says where the problems are that the page lists.
func (d *reading) findProblems(problems []check.Problem) {
	index := make(map[string]int, len(d.Ops))
	for i, o := range d.Ops {
		index[o.ID] = i
	}
	d.Problems = []spot{}
	for _, p := range problems[:min(len(problems), mostProblems)] {
		s := spot{Op: -1, At: -1}
		if i, ok := index[p.Op]; ok && p.Op != "" {
			s.Op, s.At = i, d.Ops[i].At
		} else if p.At > 0 {
			s.At = min(max(d.ms(p.At), d.From), d.To)
		}
		d.Problems = append(d.Problems, s)
	}
}
