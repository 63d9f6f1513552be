package metrics

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
)

// terms are those of this process. It is a prometheus.Collector, because a term changes its state
// by itself.
type terms struct {
	now   *prometheus.Desc
	won   *prometheus.CounterVec
	ended *prometheus.CounterVec

	mu       sync.Mutex
	standing map[string]int // campaigns under way, by label
	held     map[*fence.Term]string
}

// causes are the values of the label cause.
var causes = map[string]error{
	"resigned": fence.ErrResigned, "expired": fence.ErrExpired, "deposed": fence.ErrDeposed,
	"superseded": fence.ErrSuperseded,
}

const standing = "standing"

func newTerms(register promauto.Factory) *terms {
	return &terms{
		standing: map[string]int{}, held: map[*fence.Term]string{},
		now: prometheus.NewDesc(prometheus.BuildFQName(namespace, "leader", "terms"),
			"Terms and campaigns of this process now, by state: standing (for election), active (it "+
				"leads), suspended (it led when the coordinator answered last). The resource is empty for "+
				"the terms of jobs.",
			[]string{"resource", "state"}, nil),
		won: register.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "leader", Name: "terms_won_total", Help: "Elections that " +
				"this process has won.",
		}, []string{"resource"}),
		ended: register.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "leader", Name: "terms_ended_total",
			Help: "Terms of this process that have ended, by cause: resigned (its work was done, or it " +
				"was told to end), expired (the coordinator did not hear of it in time), deposed (by an " +
				"operator), superseded (a store knows a newer leader).",
		}, []string{"resource", "cause"}),
	}
}

// Watch returns a coordinator that counts the terms which it hands out, under the label of the one
// resource that this process leads; "" for jobs.
func (m *Metrics) Watch(c documents.Coordinator, resource fence.Resource) documents.Coordinator {
	m.terms.begin(string(resource))
	return &watched{c, m.terms, string(resource)}
}

type watched struct {
	documents.Coordinator
	terms *terms
	label string
}

// Campaign implements fence.Elector.
func (w *watched) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	defer w.terms.stand(w.label)()
	t, err := w.Coordinator.Campaign(ctx, r, holder)
	if err == nil {
		w.terms.win(w.label, t)
	}
	return t, err
}

// begin makes the series at zero: a counter that appears with its first event has no increase that
// Prometheus could see.
func (t *terms) begin(label string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.standing[label] += 0
	t.won.WithLabelValues(label)
	for cause := range causes {
		t.ended.WithLabelValues(label, cause)
	}
}

// stand counts a campaign until it has ended.
func (t *terms) stand(label string) (ended func()) {
	add := func(n int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.standing[label] += n
	}
	add(1)
	return func() { add(-1) }
}

// win counts a term until it has ended.
func (t *terms) win(label string, term *fence.Term) {
	t.won.WithLabelValues(label).Inc()
	t.mu.Lock()
	t.held[term] = label
	t.mu.Unlock()
	context.AfterFunc(term.Context(), func() {
		t.ended.WithLabelValues(label, causeOf(context.Cause(term.Context()))).Inc()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.held, term)
	})
}

func causeOf(err error) string {
	for cause, is := range causes {
		if errors.Is(err, is) {
			return cause
		}
	}
	return "other"
}

// leads reports whether a term of this process is active.
func (t *terms) leads() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for term := range t.held {
		if term.State() == fence.Active {
			return true
		}
	}
	return false
}

// Describe implements prometheus.Collector.
func (t *terms) Describe(out chan<- *prometheus.Desc) { out <- t.now }

// Collect implements prometheus.Collector.
func (t *terms) Collect(out chan<- prometheus.Metric) {
	for label, states := range t.count() {
		for state, n := range states {
			out <- prometheus.MustNewConstMetric(t.now, prometheus.GaugeValue, float64(n), label, state)
		}
	}
}

// count returns how many there are, by label and state.
func (t *terms) count() map[string]map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]map[string]int{}
	for label, n := range t.standing {
		all[label] = map[string]int{standing: n, fence.Active.String(): 0, fence.Suspended.String(): 0}
	}
	for term, label := range t.held {
		if s := term.State(); s != fence.Lost {
			all[label][s.String()]++
		}
	}
	return all
}
