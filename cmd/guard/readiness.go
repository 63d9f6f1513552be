package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
)

const (
	readyEvery = 2 * time.Second
	readyTime  = 5 * time.Second // bounds one look
)

// readiness logs and counts when a protocol, or one of its databases, becomes ready or stops being
// ready.
type readiness struct {
	protocol guard.Protocol
	log      *slog.Logger
	metrics  *guard.Metrics
	unit     *unit
	last     map[string]string // the state of each database; that of the protocol is under ""
	counted  map[string]error  // databases that have a metric
}

// watchReadiness runs until ctx ends. Then the protocol counts as not ready.
func watchReadiness(
	ctx context.Context, log *slog.Logger, m *guard.Metrics, u *unit, p guard.Protocol,
) {
	defer m.Ready(p.Name(), false)
	r := readiness{protocol: p, log: log, metrics: m, unit: u, last: map[string]string{}}
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		r.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *readiness) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	err := r.protocol.Ready(bounded)
	var databases map[string]error
	if several, ok := r.protocol.(guard.Several); ok {
		databases = several.Databases(bounded)
	}
	if ctx.Err() != nil {
		return
	}
	r.metrics.Ready(r.protocol.Name(), err == nil)
	r.tell(ctx, "", err)
	for name, err := range databases {
		r.metrics.DatabaseReady(r.protocol.Name(), name, err == nil)
		if len(databases) > 1 {
			r.tell(ctx, name, err)
		}
	}
	for name := range r.counted {
		if _, open := databases[name]; !open {
			r.metrics.DatabaseClosed(r.protocol.Name(), name)
			delete(r.last, name)
		}
	}
	r.counted = databases
}

// tell logs a state that has changed.
func (r *readiness) tell(ctx context.Context, database string, err error) {
	state, level := "ready", slog.LevelInfo
	if err != nil {
		state, level = err.Error(), slog.LevelError
	}
	if state == r.last[database] {
		return
	}
	r.last[database] = state
	if database == "" {
		why := ""
		if err != nil {
			why = state
		}
		r.unit.readiness(r.protocol.Name(), why)
	}
	r.log.Log(ctx, level, "readiness", "protocol", r.protocol.Name(), "database", database, "state", state)
}
