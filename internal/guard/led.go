package guard

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// led shows which resources have a leader. It is a prometheus.Collector. A guard follows at most a
// thousand elections, so there is no bound of its own here.
type led struct {
	read func() map[fence.Resource]marks.Election
	desc *prometheus.Desc
}

// OfJobs reports whether a resource is one of the numbered ones that jobs share, which nobody leads
// most of the time (package jobs, "Numbered resources").
func OfJobs(r fence.Resource) bool { return ofJobs.MatchString(string(r)) }

var ofJobs = regexp.MustCompile(`^job_.*_[0-9a-z]{8}_[0-9]+$`)

// Elections has the metrics show whether somebody leads each resource; read returns it.
func (m *Metrics) Elections(read func() map[fence.Resource]marks.Election) {
	m.registerer.MustRegister(&led{read, prometheus.NewDesc("ringfence_resource_led",
		"1 if somebody leads the resource at the coordinator, 0 if nobody does, for each election that "+
			"this guard follows: those of resources of which it has admitted a session, without those of "+
			"jobs.",
		[]string{"resource"}, nil)})
}

// Describe implements prometheus.Collector.
func (l *led) Describe(out chan<- *prometheus.Desc) { out <- l.desc }

// Collect implements prometheus.Collector.
func (l *led) Collect(out chan<- prometheus.Metric) {
	for r, now := range l.read() {
		if !OfJobs(r) {
			out <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, number(now.Token != 0),
				string(r))
		}
	}
}
