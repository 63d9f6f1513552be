package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/cmd/internal/systemd"
)

// unit tells the service manager what this process does, if there is one.
type unit struct {
	manager *systemd.Manager
	stop    context.CancelFunc
	beats   sync.WaitGroup
}

// openUnit connects to the service manager, and proves to it that the process runs. The caller says
// Ready as soon as the process stands for election or serves. It does not matter who leads or
// whether the coordinator answers: a restart would not change that.
func (p *program) openUnit(ctx context.Context, log *slog.Logger) *unit {
	m, err := systemd.Connect(p.managed)
	if err != nil {
		log.Warn("the service manager will not hear of this process", "cause", err.Error())
	}
	beating, stop := context.WithCancel(ctx)
	u := &unit{manager: m, stop: stop}
	runs := func(context.Context) error { return nil }
	u.beats.Go(func() { m.Beat(beating, runs, nil) })
	return u
}

func (u *unit) close() {
	u.stop()
	u.beats.Wait()
	u.manager.Close()
}
