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

// readiness logs and counts when a protocol, one of its databases, or the coordinator becomes ready or
// stops being ready.
type readiness struct {
	guard.Readiness
	log     *slog.Logger
	metrics *guard.Metrics
	unit    *unit
	last    map[part]string
	counted map[string]map[string]error // databases that have a metric, by protocol
}

// part is a protocol, or the coordinator, or a database of a protocol.
type part struct{ name, database string }

// watch runs until ctx ends. Then no protocol counts as ready.
func (r *readiness) watch(ctx context.Context) {
	r.last, r.counted = map[part]string{}, map[string]map[string]error{}
	defer func() {
		for _, p := range r.Protocols {
			r.metrics.Ready(p.Name(), false)
		}
	}()
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		l := r.Look(ctx, readyTime)
		if ctx.Err() != nil {
			return
		}
		r.tell(ctx, l)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *readiness) tell(ctx context.Context, l guard.Look) {
	if r.Coordinator != nil {
		r.metrics.CoordinatorReady(l.Coordinator == nil)
		r.changed(ctx, part{"coordinator", ""}, l.Coordinator)
	}
	for name := range l.Protocols {
		err := l.Ready(name)
		r.metrics.Ready(name, err == nil)
		r.changed(ctx, part{name, ""}, err)
		r.databases(ctx, name, l.Databases[name])
	}
}

func (r *readiness) databases(ctx context.Context, protocol string, all map[string]error) {
	for name, err := range all {
		r.metrics.DatabaseReady(protocol, name, err == nil)
		if len(all) > 1 {
			r.changed(ctx, part{protocol, name}, err)
		}
	}
	for name := range r.counted[protocol] {
		if _, open := all[name]; !open {
			r.metrics.DatabaseClosed(protocol, name)
			delete(r.last, part{protocol, name})
		}
	}
	r.counted[protocol] = all
}

// changed logs a state that has changed.
func (r *readiness) changed(ctx context.Context, p part, err error) {
	state, why, level := "ready", "", slog.LevelInfo
	if err != nil {
		state, why, level = err.Error(), err.Error(), slog.LevelError
	}
	if state == r.last[p] {
		return
	}
	r.last[p] = state
	if p.database == "" {
		r.unit.readiness(p.name, why)
	}
	r.log.Log(ctx, level, "readiness", "protocol", p.name, "database", p.database, "state", state)
}
