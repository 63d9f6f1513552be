package guard

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

func TestAResourceHasALeaderOrNobodyLeadsIt(t *testing.T) {
	r := prometheus.NewRegistry()
	NewMetrics(r).Elections(func() map[fence.Resource]marks.Election {
		return map[fence.Resource]marks.Election{
			"orders": {Token: 5}, "stock": {}, "job_nightly_q7f3m2ab_17": {}, "job_runner_17": {},
		}
	})
	for resource, want := range map[string]float64{"orders": 1, "stock": 0, "job_runner_17": 0} {
		if got := value(t, r, "ringfence_resource_led", resource); got != want {
			t.Errorf("%s: %v", resource, got)
		}
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "ringfence_resource_led" && len(f.GetMetric()) != 3 {
			t.Errorf("%d resources, one of them of a job", len(f.GetMetric()))
		}
	}
}
