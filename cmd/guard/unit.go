package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/systemd"
	"github.com/ringfence/ringfence/internal/guard/relay"
)

// unit tells the service manager what the guard does, if there is one.
type unit struct {
	manager *systemd.Manager
	log     *slog.Logger

	mu       sync.Mutex
	opened   []string
	notReady map[string]string // why, by protocol; and the coordinator
	failed   error             // of the last reload
	stopping string
}

func newUnit(env []string, log *slog.Logger) *unit {
	m, err := systemd.Connect(env)
	if err != nil {
		log.Warn("the service manager will not hear of this process", "err", err)
	}
	return &unit{manager: m, log: log, notReady: make(map[string]string)}
}

// say changes what is known, and sends the status.
func (u *unit) say(send func(status string), change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
	send(u.status())
}

// serving says that every listener is open. Whether the stores can be used does not matter for
// this: a restart would not help them.
func (u *unit) serving(opened []string) { u.say(u.manager.Ready, func() { u.opened = opened }) }

// readiness says whether a protocol can admit sessions, or the coordinator answers, and why not.
func (u *unit) readiness(protocol, why string) {
	u.say(u.manager.Status, func() {
		delete(u.notReady, protocol)
		if why != "" {
			u.notReady[protocol] = why
		}
	})
}

func (u *unit) reloading() { u.manager.Reloading() }

// reloaded ends a reload, which has failed if err is not nil.
func (u *unit) reloaded(err error) { u.say(u.manager.Ready, func() { u.failed = err }) }

// stops says that the guard stops, within this time.
func (u *unit) stops(delay, drain time.Duration) {
	stopping := func(status string) { u.manager.Stopping(status, delay+drain+stopMargin) }
	u.say(stopping, func() {
		u.stopping = fmt.Sprintf("Stopping: open transactions have %s to end", delay+drain)
	})
}

// stopMargin is the time for everything at a stop that is not the drain: last words, releases.
const stopMargin = 15 * time.Second

// status is one line for people (systemctl status).
func (u *unit) status() string {
	all := []string{cmp.Or(u.stopping, "Serving "+strings.Join(u.opened, ", "))}
	for _, name := range slices.Sorted(maps.Keys(u.notReady)) {
		all = append(all, name+" is not ready: "+u.notReady[name])
	}
	if u.failed != nil {
		all = append(all, "the last reload failed: "+u.failed.Error())
	}
	return strings.Join(all, "; ")
}

// beat proves to the service manager that this process works, as often as it wants to, until ctx
// ends: goroutines run, and every relay loop handles events. Databases and coordinators do not
// count, because a restart would not mend them and would end the sessions.
func (u *unit) beat(ctx context.Context, loops *relay.Loops) {
	u.manager.Beat(ctx, loops.Respond, func(err error) {
		u.log.Error("the service manager is not told that the guard works", "err", err)
	})
}

func (u *unit) close() { u.manager.Close() }
