package check

import (
	"cmp"
	"maps"
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

// rates computes acknowledged writes per second, by the time of their Return. The final phase is
// not a fault here if there is any other. The time between two faults belongs to none of the three
// rates.
func (r *run) rates(figures *Figures) {
	injected := r.injected()
	if len(injected) == 0 || len(r.ops) == 0 {
		return
	}
	last := r.ops[0].invoked
	for _, o := range r.ops {
		last = max(last, o.when())
	}
	end := last
	if !injected[0].isFinalPhase() {
		end = min(last, r.finalPhase())
	}
	figures.Before = r.rate(r.ops[0].invoked, injected[0].begin)
	figures.During = r.rateDuring(injected, last)
	figures.After = r.rate(lastEnd(injected), end)
}

func lastEnd(all []fault) int64 {
	last := int64(0)
	for _, t := range all {
		last = max(last, t.end)
	}
	return last
}

// rate is that of the acknowledged writes from one time to another.
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

// rateDuring is the rate while any fault lasts. Faults may nest, so it first joins their times.
func (r *run) rateDuring(injected []fault, last int64) float64 {
	var total, until int64
	for _, t := range injected { // by begin
		from, to := max(t.begin, until), min(t.end, last)
		total += max(0, to-from)
		until = max(until, to)
	}
	if total == 0 {
		return 0
	}
	n := 0
	for _, o := range r.ops {
		if o.work() && o.ok() && anyAt(injected, o.returned) {
			n++
		}
	}
	return float64(n) / time.Duration(total).Seconds()
}

// takeOvers returns the times from the last acknowledgement under one token to the first under the
// next, for all stores together; of each job if there are any. An acknowledgement that was written
// down after the next leader's first one does not count as the last: its process was frozen in
// between.
func (r *run) takeOvers() (all []history.Duration) {
	by := map[string]map[age][]int64{}
	for _, o := range r.ops {
		if !o.work() || !o.ok() {
			continue
		}
		job := ""
		if r.aboutJobs() {
			job = history.JobOf(o.key)
		}
		if by[job] == nil {
			by[job] = map[age][]int64{}
		}
		by[job][o.age] = append(by[job][o.age], o.returned)
	}
	for _, job := range slices.Sorted(maps.Keys(by)) {
		all = append(all, takeOversOf(by[job])...)
	}
	return all
}

// takeOversOf returns them from the times of the acknowledgements under each token.
func takeOversOf(by map[age][]int64) (all []history.Duration) {
	var tokens []age
	for a, times := range by {
		tokens = append(tokens, a)
		slices.Sort(times)
	}
	slices.SortFunc(tokens, age.Compare)
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
