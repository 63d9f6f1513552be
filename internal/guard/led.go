package guard

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/fence"
)

// led shows which resources have a leader. It is a prometheus.Collector. A guard follows at most a thousand
// elections, so there is no bound of its own here.
type led struct {
	read func() map[fence.Resource]bool
	desc *prometheus.Desc
}

// ofJobs fits the numbered resources of jobs, which nobody leads most of the time (package jobs, "Numbered
// resources").
var ofJobs = regexp.MustCompile(`^job_.*_[0-9a-z]{8}_[0-9]+$`)

// Led has the metrics show whether somebody leads each resource; read returns it.
func (m *Metrics) Led(read func() map[fence.Resource]bool) {
	m.registerer.MustRegister(&led{read, prometheus.NewDesc("ringfence_resource_led",
		"1 if somebody leads the resource at the coordinator, 0 if nobody does, for each election that this guard "+
			"follows: those of resources of which it has admitted a session, without those of jobs.",
		[]string{"resource"}, nil)})
}

// Describe implements prometheus.Collector.
func (l *led) Describe(out chan<- *prometheus.Desc) { out <- l.desc }

// Collect implements prometheus.Collector.
func (l *led) Collect(out chan<- prometheus.Metric) {
	for r, yes := range l.read() {
		if !ofJobs.MatchString(string(r)) {
			out <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, number(yes), string(r))
		}
	}
}
