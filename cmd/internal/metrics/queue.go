package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// A queue is read at most so often, and rests twenty times as long as a reading took.
const (
	readEvery = 10 * time.Second
	restFor   = 20
	readTime  = 5 * time.Second // bounds a reading
)

// queue shows the jobs of a group. It is a prometheus.Collector.
type queue struct {
	*queueview.View
	worker string // read only while this worker assigns; "" for always

	jobs, due, oldest, workers, capacity *prometheus.Desc

	mu   sync.Mutex
	next time.Time // of a reading
	last []prometheus.Metric
}

// Group has the metrics show the queue of a group. If worker is not empty, they show it only while
// the worker of that name assigns the jobs: one of the workers then reads the queue, and not all.
func (m *Metrics) Group(q *queueview.View, worker string) {
	labels := prometheus.Labels{"group": q.Group().Name()}
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "jobs", name), help, variable, labels)
	}
	m.registry.MustRegister(&queue{
		View: q, worker: worker,
		jobs: prometheus.NewDesc(namespace+"_jobs",
			"Jobs whose status is kept, by state.", []string{"state"}, labels),
		due: desc("due", "Waiting jobs whose time has come: what the workers have no room for, or no "+
			"worker may run."),
		oldest: desc("oldest_due_seconds",
			"For how long the oldest of the jobs that are due has been, 0 if none is."),
		workers:  desc("workers", "Workers of the group that take jobs."),
		capacity: desc("capacity", "Jobs that these workers run at once, at most."),
	})
}

// Describe implements prometheus.Collector.
func (q *queue) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{q.jobs, q.due, q.oldest, q.workers, q.capacity} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (q *queue) Collect(out chan<- prometheus.Metric) {
	for _, m := range q.metrics() {
		out <- m
	}
}

// metrics returns what was read last, or reads it. After an error there are none.
func (q *queue) metrics() []prometheus.Metric {
	q.mu.Lock()
	defer q.mu.Unlock()
	began := time.Now()
	if began.Before(q.next) {
		return q.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	var err error
	if q.last, err = q.read(ctx); err != nil {
		q.last = nil
	}
	q.next = began.Add(max(readEvery, restFor*time.Since(began)))
	return q.last
}

func (q *queue) read(ctx context.Context) (all []prometheus.Metric, err error) {
	if q.worker != "" {
		workers, err := q.Workers(ctx)
		if err != nil || !slices.ContainsFunc(workers, func(w queueview.Worker) bool {
			return w.Assigns && w.Name == q.worker
		}) {
			return nil, err
		}
	}
	o, err := q.Overview(ctx, 0)
	if err != nil {
		return nil, err
	}
	due, oldest, err := q.Due(ctx)
	if err != nil {
		return nil, err
	}
	show := func(d *prometheus.Desc, value float64, labels ...string) {
		all = append(all, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
	}
	for _, s := range []job.State{
		job.Waiting, job.Assigned, job.Running, job.Done, job.Failed, job.Cancelled,
	} {
		show(q.jobs, float64(o.Counts[s]), string(s))
	}
	workers, capacity := 0, 0
	for _, w := range o.Workers {
		if !w.Stopping {
			workers++
			capacity += w.Capacity
		}
	}
	show(q.workers, float64(workers))
	show(q.capacity, float64(capacity))
	show(q.due, float64(due))
	show(q.oldest, oldest.Seconds())
	return all, nil
}
