package main

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/ringfence/ringfence/cmd/guard/internal/page"
	"github.com/ringfence/ringfence/internal/guard"
)

const (
	readyEvery = 2 * time.Second
	readyTime  = 5 * time.Second // bounds one look
)

// readiness logs, counts and shows when a protocol, one of its databases, or the coordinator
// becomes ready or stops being ready.
type readiness struct {
	guard.Readiness
	log     *slog.Logger
	metrics *guard.Metrics
	unit    *unit
	page    *page.Page // nil if nobody could look at it
	last    map[part]string
}

// part is a protocol, or the coordinator, or a database of a protocol.
type part struct{ name, database string }

// watch runs until ctx ends. Then no protocol counts as ready.
func (r *readiness) watch(ctx context.Context) {
	r.last = map[part]string{}
	defer func() {
		for _, p := range r.Protocols {
			r.metrics.Stopped(p.Name())
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
	r.metrics.Show(l)
	r.page.Look(l)
	maps.DeleteFunc(r.last, func(p part, _ string) bool { // databases that are served no longer
		_, open := l.Databases[p.name][p.database]
		return p.database != "" && !open
	})
	if l.Coordinated {
		r.changed(ctx, part{"coordinator", ""}, l.Coordinator)
	}
	for name := range l.Protocols {
		r.changed(ctx, part{name, ""}, l.Ready(name))
		if len(l.Databases[name]) > 1 {
			for database, err := range l.Databases[name] {
				r.changed(ctx, part{name, database}, err)
			}
		}
	}
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
