package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/version"
)

// Metrics are those of one process.
type Metrics struct {
	registry    *prometheus.Registry
	register    promauto.Factory
	coordinator elector.Observer
	scrub       func(string) string // removes secrets from the text of an error
	terms       *terms
}

const (
	namespace = "ringfence"
	askTime   = 3 * time.Second // bounds a question to the coordinator
)

// New returns metrics that say whether the coordinator answers. scrub removes secrets from the
// texts of errors.
func New(coordinator elector.Observer, scrub func(string) string) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{
		registry: registry, register: promauto.With(registry), coordinator: coordinator, scrub: scrub,
	}
	built := version.Of()
	m.register.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1. The labels say which program this is.",
	}, []string{"version", "commit", "goversion"}).
		WithLabelValues(built.Version, built.Commit, built.Go).Set(1)
	m.register.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "coordinator_ready",
		Help: "1 if the coordinator answers, otherwise 0; /readyz has the reason.",
	}, func() float64 {
		if m.ready(context.Background()) != nil {
			return 0
		}
		return 1
	})
	m.terms = newTerms(m.register)
	registry.MustRegister(m.terms)
	return m
}

// DroppedLines has the metrics show how many lines of the log were dropped.
func (m *Metrics) DroppedLines(count func() float64) {
	m.register.NewCounterFunc(prometheus.CounterOpts{
		Namespace: namespace, Name: "log_lines_dropped_total",
		Help: "Lines of the log that were dropped, because standard error did not take them in time.",
	}, count)
}

// ready asks the coordinator for anything.
func (m *Metrics) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if _, err := m.coordinator.Issuer(ctx); err != nil {
		return errors.New(m.scrub(err.Error()))
	}
	return nil
}
