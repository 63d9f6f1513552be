package guard

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Metrics counts what a guard does. No label is a token, a holder or a session: there is no limit
// to those, and a token would lose digits as a float. The first thousand resources are labels.
type Metrics struct {
	connections *prometheus.GaugeVec
	accepts     *prometheus.CounterVec
	ends        *prometheus.CounterVec
	admissions  *prometheus.CounterVec
	raises      *prometheus.CounterVec
	ended       *prometheus.CounterVec
	duration    *prometheus.HistogramVec

	mu        sync.Mutex
	resources map[fence.Resource]bool // those that are a label
}

// resourcesMost is how many resources have a label of their own. Each costs the guard kilobytes,
// and the scraper one series for each result.
const resourcesMost = 1000

// otherResources is the label of the others. It is no name of a resource.
const otherResources = "(others)"

// label returns the label of a claim's resource.
func (m *Metrics) label(c fence.Claim) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.resources[c.Resource] {
		if len(m.resources) >= resourcesMost {
			return otherResources
		}
		m.resources[c.Resource] = true
	}
	return string(c.Resource)
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		resources: make(map[fence.Resource]bool),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "guard_connections",
			Help: "Client connections open now, by state: waiting (for a slot), unadmitted, " +
				"login (under way at the server), admitted.",
		}, []string{"protocol", "state"}),
		accepts: counter("guard_connections_total",
			"Client connections: accepted (all of them), too_many (no room, not even to wait).",
			"protocol", "result"),
		ends: counter("guard_connections_ended_total",
			"Connections that the guard ended, by reason: evicted (others needed the slot), "+
				"full (all admitted slots were taken), login_timeout, idle (no token), "+
				"stuck (the client did not read, and had no session, or none any more).",
			"protocol", "reason"),
		admissions: counter("guard_admissions_total",
			"Admissions by the store: admitted, or the reason of the refusal. "+
				"An admitted session may still find the guard full. "+
				"The first 1000 resources have their own label, the others (others).",
			"protocol", "resource", "result"),
		raises: counter("guard_raises_total",
			"Marks raised: changes of leadership that reached this store through this guard.",
			"protocol", "resource"),
		ended: counter("guard_revoked_sessions_total",
			"Sessions of older tokens that were ended.", "protocol", "resource"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "guard_step_duration_seconds",
			Help: "How long a whole admission took (step admission), and each of its steps: connect, " +
				"login, identify, issuer (the coordinator), register, raise, revoke, slot, other.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}, []string{"protocol", "step"}),
	}
	r.MustRegister(m.connections, m.accepts, m.ends, m.admissions, m.raises, m.ended, m.duration)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) accepted(p Protocol) { m.accepts.WithLabelValues(p.Name(), "accepted").Inc() }

func (m *Metrics) end(p Protocol, e Ended) {
	if e == Crowded {
		m.accepts.WithLabelValues(p.Name(), string(e)).Inc()
		return
	}
	m.ends.WithLabelValues(p.Name(), string(e)).Inc()
}

// slots returns a function that sets how many connections of a protocol are in each state.
func (m *Metrics) slots(p Protocol) func(waiting, unadmitted, login, admitted int) {
	of := func(state string) prometheus.Gauge { return m.connections.WithLabelValues(p.Name(), state) }
	w, u, l, a := of("waiting"), of("unadmitted"), of("login"), of("admitted")
	return func(waiting, unadmitted, login, admitted int) {
		w.Set(float64(waiting))
		u.Set(float64(unadmitted))
		l.Set(float64(login))
		a.Set(float64(admitted))
	}
}

func (m *Metrics) event(protocol string, e marks.Event) {
	switch e.Kind {
	case marks.Opened:
		m.admissions.WithLabelValues(protocol, m.label(e.Claim), result(nil)).Inc()
	case marks.Refused:
		resource := "" // a refused claim may name any resource: only one that exists may become a label
		if refusalIn(e.Err).Mark != 0 {
			resource = m.label(e.Claim)
		}
		m.admissions.WithLabelValues(protocol, resource, result(e.Err)).Inc()
	case marks.Finished:
		m.duration.WithLabelValues(protocol, "admission").Observe(e.Took.Seconds())
		for step, took := range e.Steps {
			m.duration.WithLabelValues(protocol, string(step)).Observe(took.Seconds())
		}
	case marks.Raised:
		m.raises.WithLabelValues(protocol, m.label(e.Claim)).Inc()
	case marks.Revoked:
		m.ended.WithLabelValues(protocol, m.label(e.Claim)).Add(float64(e.Ended))
	}
}
