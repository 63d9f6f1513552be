package rounds

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedianAndPercentile(t *testing.T) {
	for want, values := range map[float64][]float64{
		2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7},
	} {
		if got := Median(values); got != want {
			t.Errorf("the median of %v is %v, got %v", values, want, got)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(i+1))
	}
	if got := Percentile(times, 0.99); got != 100 {
		t.Errorf("got %d", got)
	}
	if got := Percentile(times[:1], 0.99); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestEachIsFirstInTurn(t *testing.T) {
	all := []string{"a", "b", "c"}
	for round, want := range [][]string{{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"},
		{"a", "b", "c"}} {
		if got := Turn(all, round); !slices.Equal(got, want) {
			t.Errorf("round %d: got %v, want %v", round, got, want)
		}
	}
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("the argument became %v", all)
	}
}
