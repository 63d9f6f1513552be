// Package rounds has the order and the statistics of measurements that take turns.
package rounds

import (
	"cmp"
	"math"
	"slices"
)

// Median returns the value in the middle, or NaN if there is none.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return math.NaN()
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Percentile returns the value below which a part q of the sorted values lies, for example 0.99.
func Percentile[T cmp.Ordered](sorted []T, q float64) T {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Turn returns the order of a round: in a cycle that begins one later in each round, so that each
// is first equally often.
func Turn[T any](all []T, round int) []T {
	if len(all) == 0 {
		return nil
	}
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}
