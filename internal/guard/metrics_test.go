package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/test/must"
)

// everyEvent reports one of each kind of event, and sets every gauge.
func everyEvent(t *testing.T) *prometheus.Registry {
	t.Helper()
	c := claimOf(5)
	_, r := told(t, func(tell func(marks.Event)) {
		tell(marks.Event{Kind: marks.Raised, Claim: c})
		tell(marks.Event{Kind: marks.Revoked, Claim: c})
		tell(marks.Event{Kind: marks.Opened, Claim: c})
		tell(marks.Event{Kind: marks.Finished, Claim: c,
			Steps: map[marks.Step]time.Duration{marks.StepRaise: 1}})
	})
	return r
}

// promlint knows Prometheus's rules for names, units and help texts.
func TestMetricsHaveTheFormThatPrometheusExpects(t *testing.T) {
	r := everyEvent(t)
	families, err := r.Gather()
	must.Succeed(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must.Succeed(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "ringfence_") {
			t.Errorf("%s has another prefix", f.GetName())
		}
	}
}

func TestCountersThatAlertsWatchBeginAtZero(t *testing.T) {
	_, r := told(t, func(func(marks.Event)) {})
	families, err := r.Gather()
	must.Succeed(t, err)
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	for name, want := range map[string]int{
		"ringfence_connections_accepted_total": 1, "ringfence_connections_ended_total": 9,
		"ringfence_refusals_total": 13,
	} {
		if series[name] != want {
			t.Errorf("%s has %d series before the first event, want %d", name, series[name], want)
		}
	}
}

func TestSessionsAreCountedByResourceUntilTheyEnd(t *testing.T) {
	other := fence.Claim{Resource: "stock", Token: 5}
	_, r := told(t, func(tell func(marks.Event)) {
		tell(marks.Event{Kind: marks.Opened, Claim: claimOf(5)})
		tell(marks.Event{Kind: marks.Opened, Claim: claimOf(5)})
		tell(marks.Event{Kind: marks.Opened, Claim: other})
		tell(marks.Event{Kind: marks.Closed, Claim: claimOf(5)})
		tell(marks.Event{Kind: marks.Refused, Claim: claimOf(4),
			Err: refusal.Stale(claimOf(4), 5, "", time.Time{})})
	})
	for resource, want := range map[string]float64{"orders": 1, "stock": 1} {
		if n := value(t, r, "ringfence_sessions", "postgres", resource); n != want {
			t.Errorf("%v sessions of %s, want %v", n, resource, want)
		}
	}
	if n := value(t, r, "ringfence_admissions_total", "postgres", "orders", "refused"); n != 1 {
		t.Errorf("%v refusals of orders, want 1", n)
	}
}

func numbered(i int) fence.Claim {
	return fence.Claim{Resource: fence.Resource(fmt.Sprintf("r%d", i)), Token: 5}
}

// The others share a series, in which sessions must end as they began.
func TestASessionEndsUnderTheLabelThatItBeganWith(t *testing.T) {
	_, r := told(t, func(tell func(marks.Event)) {
		for i := range maxResources + 1 {
			tell(marks.Event{Kind: marks.Opened, Claim: numbered(i)})
		}
		for i := range maxResources + 1 {
			tell(marks.Event{Kind: marks.Closed, Claim: numbered(i)})
		}
	})
	families, err := r.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if n := m.GetGauge().GetValue(); f.GetName() == "ringfence_sessions" && n != 0 {
				t.Errorf("%v sessions are left at %v", n, m.GetLabel())
			}
		}
	}
}
