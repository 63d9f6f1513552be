package guard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/internal/marks"
)

// Metrics are what a guard counts. No metric is labelled with a token, a holder or a session: those are without bound,
// and a token would lose digits as a float.
type Metrics struct {
	connections *prometheus.GaugeVec
	accepts     *prometheus.CounterVec
	ends        *prometheus.CounterVec
	admissions  *prometheus.CounterVec
	raises      *prometheus.CounterVec
	ended       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "guard_connections", Help: "Client connections open now, by state: waiting (for room), unadmitted, login (under way at the server), admitted."}, []string{"protocol", "state"}),
		accepts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "guard_connections_total", Help: "Client connections, by what became of them at the door: accepted (all of them), too_many (no room, not even to wait)."}, []string{"protocol", "result"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "guard_connections_ended_total", Help: "Connections that the guard ended, by reason: evicted (others needed its place), full (the most admitted sessions were there already), login_timeout, idle (no token), stuck (the client did not read, and its session had ended or never was)."}, []string{"protocol", "reason"}),
		admissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "guard_admissions_total", Help: "Admissions by the store, by result: admitted, or the reason of the refusal. One that was admitted may still find the guard full."}, []string{"protocol", "resource", "result"}),
		raises: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "guard_raises_total", Help: "Marks raised: changes of leadership that reached this store through this guard."}, []string{"protocol", "resource"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "guard_revoked_sessions_total", Help: "Sessions of older tokens that were ended."}, []string{"protocol", "resource"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "guard_step_duration_seconds", Help: "How long a whole admission took (step admission), and each of its steps: connect, login, identify, issuer (the coordinator is asked), register, raise, revoke, slot, other.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}, []string{"protocol", "step"}),
	}
	r.MustRegister(m.connections, m.accepts, m.ends, m.admissions, m.raises, m.ended, m.duration)
	return m
}

func (m *Metrics) accepted(p Protocol) { m.accepts.WithLabelValues(p.Name(), "accepted").Inc() }

func (m *Metrics) end(p Protocol, e Ended) {
	if e == Crowded {
		m.accepts.WithLabelValues(p.Name(), string(e)).Inc()
		return
	}
	m.ends.WithLabelValues(p.Name(), string(e)).Inc()
}

// slots returns what sets the connections of a protocol by state.
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
	resource := string(e.Claim.Resource)
	switch e.Kind {
	case marks.Opened:
		m.admissions.WithLabelValues(protocol, resource, result(nil)).Inc()
	case marks.Refused:
		// A refused claim may name any resource: only those that exist may become a label.
		if refusalIn(e.Err).Mark == 0 {
			resource = ""
		}
		m.admissions.WithLabelValues(protocol, resource, result(e.Err)).Inc()
	case marks.Finished:
		m.duration.WithLabelValues(protocol, "admission").Observe(e.Took.Seconds())
		for step, took := range e.Steps {
			m.duration.WithLabelValues(protocol, string(step)).Observe(took.Seconds())
		}
	case marks.Raised:
		m.raises.WithLabelValues(protocol, resource).Inc()
	case marks.Revoked:
		m.ended.WithLabelValues(protocol, resource).Add(float64(e.Ended))
	}
}
