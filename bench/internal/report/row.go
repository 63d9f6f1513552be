package report

import (
	"math"
	"slices"

	"github.com/ringfence/ringfence/bench/internal/rounds"
)

// Row is what was measured of one thing, in every way in which it was done.
type Row struct {
	Name  string
	Unit  string // of the values, such as "tps"
	Lower bool   // a lower value is better
	Bar   *Bar   // may be nil

	results []*result
}

// result has the measurements of one way, one of each round.
type result struct {
	way    string
	values []float64
	cpu    []float64 // the proxy's CPU time for each operation, in microseconds; empty if not known
}

// Bar is what a row has to reach.
type Bar struct {
	Way     string  // whose values are judged
	Against string  // the way that it is compared with; empty if the limit is a value
	Limit   float64 // the lowest ratio to Against, or the worst median
}

// Add adds the value of one round.
func (r *Row) Add(way string, value float64) {
	of := r.of(way)
	if of == nil {
		of = &result{way: way}
		r.results = append(r.results, of)
	}
	of.values = append(of.values, value)
}

// AddCPU adds the proxy's CPU time for each operation of one round, in microseconds. Call Add
// first.
func (r *Row) AddCPU(way string, microseconds float64) {
	if of := r.of(way); of != nil {
		of.cpu = append(of.cpu, microseconds)
	}
}

func (r *Row) of(way string) *result {
	i := slices.IndexFunc(r.results, func(x *result) bool { return x.way == way })
	if i < 0 {
		return nil
	}
	return r.results[i]
}

// Ratio returns how many times as good way is as other, by their medians. It is NaN if one of them
// was not measured.
func (r *Row) Ratio(way, other string) float64 {
	a, b := r.of(way), r.of(other)
	if a == nil || b == nil {
		return math.NaN()
	}
	return r.better(rounds.Median(a.values), rounds.Median(b.values))
}

// ratioSpread returns the lowest and the highest ratio of two measurements of the same round, which
// were close together.
func (r *Row) ratioSpread(way, other string) (least, most float64) {
	a, b := r.of(way), r.of(other)
	if a == nil || b == nil {
		return math.NaN(), math.NaN()
	}
	var all []float64
	for i := range min(len(a.values), len(b.values)) {
		all = append(all, r.better(a.values[i], b.values[i]))
	}
	return slices.Min(all), slices.Max(all)
}

func (r *Row) better(a, b float64) float64 {
	if r.Lower {
		return b / a
	}
	return a / b
}

// best returns the way with the best median among those that pass, or "" if there is none.
func (r *Row) best(pass func(way string) bool) string {
	best := ""
	for _, x := range r.results {
		if pass(x.way) && (best == "" || r.Ratio(x.way, best) > 1) {
			best = x.way
		}
	}
	return best
}

// judge returns the value that the bar limits, and whether the bar is met. The value is NaN if it
// was not measured.
func (r *Row) judge() (value float64, met bool) {
	b := r.Bar
	if b.Against != "" {
		value = r.Ratio(b.Way, b.Against)
		return value, value >= b.Limit
	}
	of := r.of(b.Way)
	if of == nil {
		return math.NaN(), false
	}
	value = rounds.Median(of.values)
	if r.Lower {
		return value, value <= b.Limit
	}
	return value, value >= b.Limit
}
