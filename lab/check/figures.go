package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

func between(from, to int64) time.Duration { return time.Duration(to - from) }

// figures counts what needs no judgement; the invariants add what they find.
func (r *run) figures(figures *Figures) {
	for _, o := range r.ops {
		if o.outcome == history.Stale {
			figures.StaleRefused++
		}
		if !o.work() {
			continue
		}
		figures.Writes++
		switch o.outcome {
		case history.OK:
			figures.Acknowledged++
		case history.Unknown:
			figures.Unknown++
		}
	}
	r.rates(figures)
	figures.TakeOvers = r.takeOvers()
}

// rates are acknowledged writes each second, by the time of their Return. The coda is no fault here, if there is any other;
// what comes between two faults is in none of the three.
func (r *run) rates(figures *Figures) {
	done := r.done()
	if len(done) == 0 || len(r.ops) == 0 {
		return
	}
	last := r.ops[0].invoked
	for _, o := range r.ops {
		last = max(last, o.known())
	}
	end := min(last, r.codaAfter(done))
	first, healed := done[0].begin, lastEnd(done)
	figures.Before = r.rate(r.ops[0].invoked, first)
	figures.During = r.rateOver(done, last)
	figures.After = r.rate(healed, end)
}

func lastEnd(all []fault) int64 {
	last := int64(0)
	for _, t := range all {
		last = max(last, t.end)
	}
	return last
}

// codaAfter is when the coda began, unless it is itself what is measured.
func (r *run) codaAfter(done []fault) int64 {
	if done[0].coda() {
		return never
	}
	return r.coda()
}

// rate is of the acknowledged writes from one time to another.
func (r *run) rate(from, to int64) float64 {
	if to <= from {
		return 0
	}
	n := 0
	for _, o := range r.ops {
		if o.work() && o.ok() && o.returned >= from && o.returned < to {
			n++
		}
	}
	return float64(n) / between(from, to).Seconds()
}

// rateOver is the rate while any fault lasts. Faults lie within each other, so their times are joined first.
func (r *run) rateOver(done []fault, last int64) float64 {
	var total, until int64
	for _, t := range done { // by begin
		from, to := max(t.begin, until), min(t.end, last)
		total += max(0, to-from)
		until = max(until, to)
	}
	if total == 0 {
		return 0
	}
	n := 0
	for _, o := range r.ops {
		if o.work() && o.ok() && lasted(done, o.returned) {
			n++
		}
	}
	return float64(n) / time.Duration(total).Seconds()
}

// takeOvers are the times from the last acknowledgement under one token to the first under the next, all stores together.
// An acknowledgement that was written down later than the next leader's first one does not count as the last: its process was
// frozen in between.
func (r *run) takeOvers() []history.Duration {
	by := map[age][]int64{}
	for _, o := range r.ops {
		if o.work() && o.ok() {
			by[o.age] = append(by[o.age], o.returned)
		}
	}
	var tokens []age
	for a, times := range by {
		tokens = append(tokens, a)
		slices.Sort(times)
	}
	slices.SortFunc(tokens, age.Compare)
	var all []history.Duration
	for i := 1; i < len(tokens); i++ {
		first := by[tokens[i]][0]
		old := by[tokens[i-1]]
		n, _ := slices.BinarySearchFunc(old, first, cmp.Compare[int64])
		if n > 0 {
			all = append(all, history.Duration(first-old[n-1]))
		}
	}
	return all
}
