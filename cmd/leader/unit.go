package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/program/systemd"
)

// unit tells the service manager what this process does, if there is one.
type unit struct {
	manager *systemd.Manager
	stop    context.CancelFunc
	beats   sync.WaitGroup
}

// openUnit connects to the service manager, and proves to it that the process runs. The caller says
// Ready as soon as the process stands for election or serves. It does not matter who leads or whether
// the coordinator answers: a restart would not change that.
func (p *program) openUnit(ctx context.Context, log *slog.Logger) *unit {
	m, err := systemd.Connect(p.managed)
	if err != nil {
		log.Warn("the service manager will not hear of this process", "cause", err.Error())
	}
	beating, stop := context.WithCancel(ctx)
	u := &unit{manager: m, stop: stop}
	if within := m.Watchdog(); within > 0 {
		u.beats.Go(func() { u.beat(beating, within/watchdogs) })
	}
	return u
}

// watchdogs is how many times the process proves itself in the time in which it has to once.
const watchdogs = 3

// beat proves that the process runs.
func (u *unit) beat(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		u.manager.Alive()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (u *unit) close() {
	u.stop()
	u.beats.Wait()
	u.manager.Close()
}
