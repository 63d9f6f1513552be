package metrics

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs"
)

// Outcomes of an attempt.
const (
	done      = "done"
	failed    = "failed"
	timedOut  = "timed_out"
	cancelled = "cancelled"
	lost      = "lost"
	returned  = "returned"
)

// Worker has the metrics count the attempts of a worker, whose handlers are set. Call it before
// Worker.Run.
func (m *Metrics) Worker(w *jobs.Worker) {
	group := prometheus.Labels{"group": w.Queue.Group().Name()}
	gauge := func(name, help string) prometheus.Gauge {
		return m.register.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: "worker", Name: name, Help: help, ConstLabels: group,
		})
	}
	running := gauge("jobs", "Jobs that this worker runs now.")
	gauge("capacity", "Jobs that this worker runs at once, at most.").Set(float64(w.Capacity))
	attempts := m.register.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: "worker", Name: "attempts_total", ConstLabels: group,
		Help: "Attempts of jobs that this worker has ended, by outcome: done, failed, timed_out, " +
			"cancelled, lost (the job was taken back, or its term was lost: the result counts for " +
			"nothing), returned (the worker stops).",
	}, []string{"outcome"})
	for _, o := range []string{done, failed, timedOut, cancelled, lost, returned} {
		attempts.WithLabelValues(o)
	}
	for kind, handle := range w.Handlers {
		w.Handlers[kind] = func(ctx context.Context, r *jobs.Run) (any, error) {
			running.Inc()
			defer running.Dec()
			result, err := handle(ctx, r)
			attempts.WithLabelValues(outcome(context.Cause(ctx), err)).Inc()
			return result, err
		}
	}
}

// outcome is what became of an attempt. ended is why the context of its handler has ended, if it
// has.
func outcome(ended, err error) string {
	switch {
	case errors.Is(ended, jobs.ErrTakenBack), errors.Is(ended, fence.ErrLost):
		return lost
	case err == nil:
		return done
	case errors.Is(ended, jobs.ErrCancelled):
		return cancelled
	case errors.Is(ended, jobs.ErrStopping):
		return returned
	case errors.Is(ended, jobs.ErrTimeout):
		return timedOut
	}
	return failed
}
