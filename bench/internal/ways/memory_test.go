package ways

import "testing"

func TestMetricsWithoutLabels(t *testing.T) {
	got, err := parseMetrics(`# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 12
go_memstats_heap_inuse_bytes 1.5e+06
go_gc_duration_seconds{quantile="0"} 2.5e-05
go_gc_duration_seconds_count 3
`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"go_goroutines": 12, "go_memstats_heap_inuse_bytes": 1.5e6, "go_gc_duration_seconds_count": 3,
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	if _, err := parseMetrics("a b\n"); err == nil {
		t.Error("a metric without a number is accepted")
	}
}
