package guard

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/version"
)

// Metrics counts what a guard does. No label is a token, a holder, a session or an address: there
// is no limit to those, and a token would lose digits as a float. The first thousand resources are
// labels, and the first hundred databases.
type Metrics struct {
	ready       *prometheus.GaugeVec
	databases   *prometheus.GaugeVec
	coordinator *prometheus.GaugeVec
	connections *prometheus.GaugeVec
	limits      *prometheus.GaugeVec
	accepts     *prometheus.CounterVec
	ends        *prometheus.CounterVec

	sessions   *prometheus.GaugeVec
	admissions *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	raises     *prometheus.CounterVec
	unreached  *prometheus.CounterVec
	revoked    *prometheus.CounterVec

	admission   *prometheus.HistogramVec
	steps       *prometheus.HistogramVec
	raise       *prometheus.HistogramVec
	revocation  *prometheus.HistogramVec
	revocations *prometheus.HistogramVec

	registerer prometheus.Registerer

	ofResources labels[labelledResource]
	ofDatabases labels[string]
	shown       map[string]map[string]error // the databases that Show has shown last, by protocol
}

// seconds are the bounds of all histograms of time. An admission takes at least a tenth of a
// millisecond, and at most GUARD_ADMIT_TIMEOUT, 10 s by default.
var seconds = []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10}

// NewMetrics makes the metrics and registers them. Each name begins with ringfence.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{
			Namespace: "ringfence", Name: name, Help: help,
		}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return register.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "ringfence", Name: name, Help: help,
		}, labels)
	}
	histogram := func(
		name, help string, buckets []float64, labels ...string,
	) *prometheus.HistogramVec {
		return register.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "ringfence", Name: name, Help: help, Buckets: buckets,
		}, labels)
	}
	built := version.Of()
	gauge("build_info", "Always 1. The labels say which program this is.", "version", "commit",
		"goversion").
		WithLabelValues(built.Version, built.Commit, built.Go).Set(1)
	m := &Metrics{
		registerer:  r,
		ofResources: labels[labelledResource]{max: maxResources},
		ofDatabases: labels[string]{max: maxDatabases},
		ready: gauge("ready",
			"1 if sessions can be admitted, otherwise 0; /readyz has the reason.", "protocol"),
		databases: gauge("database_ready",
			"1 if sessions can be admitted to a database that this guard serves now, otherwise 0.",
			"protocol", "database"),
		coordinator: gauge("coordinator_ready",
			"1 if the coordinator answers, otherwise 0; /readyz has the reason. There is none without "+
				"a coordinator."),
		connections: gauge("connections",
			"Client connections open now, by state: waiting (for a slot), unadmitted, "+
				"login (under way at the server), admitted.", "protocol", "state"),
		limits: gauge("connections_limit",
			"Most client connections in each state.", "protocol", "state"),
		accepts: counter("connections_accepted_total",
			"Client connections accepted.", "protocol"),
		ends: counter("connections_ended_total",
			"Client connections that the guard ended, by reason: too_many (no room, not even to wait), "+
				"evicted (others needed the slot), full (all admitted slots were taken), "+
				"server_full (the server takes no more connections), "+
				"login_timeout, idle (no token), idle_session (GUARD_IDLE_TIMEOUT), "+
				"demoted (Redis is not the primary any more, or cannot be watched), "+
				"stuck (the client did not read, and had no session, or none any more).",
			"protocol", "reason"),
		sessions: gauge("sessions",
			"Admitted sessions of this guard. "+labelled, "protocol", "database", "resource"),
		admissions: counter("admissions_total",
			"Claims of sessions that were admitted or refused. An admitted session may still find the "+
				"guard full. The resource is empty if a claim was refused and its resource has no mark. "+
				labelled, "protocol", "database", "resource", "result"),
		refusals: counter("refusals_total",
			"Refused claims by reason: stale (a newer leader was admitted), no_token, malformed, "+
				"other_issuer (the coordinator was replaced or rolled back), not_installed, "+
				"unrevoked (older sessions did not end in time), "+
				"not_leader, no_coordinator (it could not be asked), mark_in_doubt (it may have been lost, "+
				"and there is no coordinator), not_allowed, not_authorized, error (see the log).",
			"protocol", "reason"),
		unreached: counter("raises_unreached_total",
			"Raises after a failover that did not reach the server of older sessions. "+labelled,
			"protocol", "database", "resource"),
		raises: counter("raises_total",
			"Marks raised or confirmed by this guard: changes of leadership, and the first session "+
				"after a restart of the store. "+labelled, "protocol", "database", "resource"),
		revoked: counter("revoked_sessions_total",
			"Sessions of older tokens that this guard has ended. "+labelled, "protocol", "database",
			"resource"),
		admission: histogram("admission_duration_seconds",
			"Time from the login or the claim to the answer.", seconds, "protocol", "result"),
		steps: histogram("admission_step_duration_seconds",
			"Time of each step of an admission: connect, login, identify, issuer (the coordinator), "+
				"register, raise, revoke, slot, other. They add up to the admission.",
			seconds, "protocol", "step"),
		raise: histogram("raise_duration_seconds",
			"Time to raise a mark, with the time of the coordinator.", seconds, "protocol"),
		revocation: histogram("revocation_duration_seconds",
			"Time to end the older sessions of a resource.", seconds, "protocol"),
		revocations: histogram("revocation_sessions",
			"Sessions that one revocation has ended.", []float64{0, 1, 3, 10, 30, 100, 300, 1000, 3000},
			"protocol"),
	}
	return m
}

// DroppedLines has the metrics show how many lines of the log were dropped.
func (m *Metrics) DroppedLines(count func() float64) {
	promauto.With(m.registerer).NewCounterFunc(prometheus.CounterOpts{
		Namespace: "ringfence", Name: "log_lines_dropped_total",
		Help: "Lines of the log that were dropped, because standard error did not take them in time.",
	}, count)
}

// Certificate has the metrics show when a certificate expires. whose says to whom it is shown.
// expires is called for each scrape, so a certificate that was renewed is shown even if nobody
// connects.
func (m *Metrics) Certificate(whose string, expires func() time.Time) {
	promauto.With(m.registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "ringfence", Name: "certificate_expiry_timestamp_seconds",
		Help: "When a certificate of this guard expires, in seconds since 1970: the one for clients " +
			"(GUARD_TLS_CERT), for pages (GUARD_HTTP_TLS_CERT), or with which it logs in to a server or " +
			"to the coordinator (sslcert).",
		ConstLabels: prometheus.Labels{"certificate": whose},
	}, func() float64 { return float64(expires().Unix()) })
}

// begin makes the series of a protocol that alerts look at. A counter that appears with its first
// event has no increase that Prometheus could see.
func (m *Metrics) begin(protocol string) {
	m.accepts.WithLabelValues(protocol)
	for _, e := range []Ended{Evicted, TooSlow, Idle, Unused, Stuck, Demoted, Crowded, NoRoom, Full} {
		m.ends.WithLabelValues(protocol, string(e))
	}
	for r := range refusal.Reasons {
		m.refusals.WithLabelValues(protocol, string(r))
	}
	m.refusals.WithLabelValues(protocol, noReason)
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (m *Metrics) accepted(protocol string) { m.accepts.WithLabelValues(protocol).Inc() }

func (m *Metrics) end(protocol string, e Ended) {
	m.ends.WithLabelValues(protocol, string(e)).Inc()
}

// slots returns a function that sets how many connections of a protocol are in each state.
func (m *Metrics) slots(protocol string) func(waiting, unadmitted, login, admitted int) {
	of := func(state string) prometheus.Gauge { return m.connections.WithLabelValues(protocol, state) }
	w, u, l, a := of("waiting"), of("unadmitted"), of("login"), of("admitted")
	return func(waiting, unadmitted, login, admitted int) {
		w.Set(float64(waiting))
		u.Set(float64(unadmitted))
		l.Set(float64(login))
		a.Set(float64(admitted))
	}
}

// limit sets how many connections a protocol may have in each state.
func (m *Metrics) limit(protocol string, l Limits) {
	for state, max := range map[string]int{
		"waiting": l.waiting(), "unadmitted": l.MaxUnadmitted,
		"login": l.MaxLogins, "admitted": l.MaxConnections,
	} {
		m.limits.WithLabelValues(protocol, state).Set(float64(max))
	}
}

// database returns the label of a database.
func (m *Metrics) database(protocol, name string) string {
	name = strings.ToValidUTF8(name, "?") // Prometheus takes nothing else
	if own, _ := m.ofDatabases.take(protocol, name); !own {
		return others
	}
	return name
}

// label returns the label of a claim's resource. A new one begins with all its series at zero.
func (m *Metrics) label(protocol, database string, c fence.Claim) string {
	own, fresh := m.ofResources.take(protocol, labelledResource{database, c.Resource})
	if !own {
		return others
	}
	label := string(c.Resource)
	if fresh {
		m.admissions.WithLabelValues(protocol, database, label, admitted)
		m.admissions.WithLabelValues(protocol, database, label, refused)
		m.raises.WithLabelValues(protocol, database, label)
		m.revoked.WithLabelValues(protocol, database, label)
	}
	return label
}

// event counts an event in a database, which has this label.
func (m *Metrics) event(protocol, database string, e marks.Event) {
	resource := func() string { return m.label(protocol, database, e.Claim) }
	switch e.Kind {
	case marks.Opened:
		m.admissions.WithLabelValues(protocol, database, resource(), admitted).Inc()
		m.sessions.WithLabelValues(protocol, database, resource()).Inc()
	case marks.Closed:
		m.sessions.WithLabelValues(protocol, database, resource()).Dec()
	case marks.Refused:
		known := "" // a refused claim may name any resource: only one that exists may become a label
		if refusalIn(e.Err).Mark != 0 {
			known = resource()
		}
		m.admissions.WithLabelValues(protocol, database, known, refused).Inc()
		m.refusals.WithLabelValues(protocol, reason(e.Err)).Inc()
	case marks.Finished:
		m.admission.WithLabelValues(protocol, result(e.Err)).Observe(e.Took.Seconds())
		for step, took := range e.Steps {
			m.steps.WithLabelValues(protocol, string(step)).Observe(took.Seconds())
		}
	case marks.Raised:
		m.raises.WithLabelValues(protocol, database, resource()).Inc()
		if e.Before.Left != "" {
			m.unreached.WithLabelValues(protocol, database, resource()).Inc()
		}
		m.raise.WithLabelValues(protocol).Observe(e.Took.Seconds())
	case marks.Restored:
		m.raises.WithLabelValues(protocol, database, resource()).Inc()
	case marks.Revoked:
		m.revoked.WithLabelValues(protocol, database, resource()).Add(float64(e.Ended))
		m.revocation.WithLabelValues(protocol).Observe(e.Took.Seconds())
		m.revocations.WithLabelValues(protocol).Observe(float64(e.Ended))
	}
}
