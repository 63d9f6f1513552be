package guard

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// Readiness is what a guard needs to admit sessions.
type Readiness struct {
	Protocols []Protocol
	// Coordinator asks the coordinator for anything; nil if there is none.
	Coordinator func(context.Context) error
	// Needed says that nobody is admitted without the coordinator.
	Needed bool
}

// Look is what a look at the readiness has found: what /readyz, the metrics, the log and the
// service manager show.
type Look struct {
	Protocols   map[string]error
	Databases   map[string]map[string]error // by protocol, where there are several
	Coordinator error
	Coordinated bool // there is a coordinator

	needed bool
}

// Look asks all at once, and gives each of them this time.
func (r Readiness) Look(ctx context.Context, limit time.Duration) Look {
	l := Look{
		Protocols: map[string]error{}, Databases: map[string]map[string]error{},
		Coordinated: r.Coordinator != nil, needed: r.Needed,
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	ask := func(do func(context.Context) (found func())) {
		asking.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			found := do(bounded)
			mu.Lock()
			defer mu.Unlock()
			found()
		})
	}
	for _, p := range r.Protocols {
		ask(func(ctx context.Context) func() {
			err := inTime(ctx, p.Ready(ctx))
			var databases map[string]error
			if s, ok := p.(Several); ok {
				databases = s.Databases(ctx)
			}
			for name, err := range databases {
				databases[name] = inTime(ctx, err)
			}
			return func() { l.Protocols[p.Name()], l.Databases[p.Name()] = err, databases }
		})
	}
	if r.Coordinator != nil {
		ask(func(ctx context.Context) func() {
			err := inTime(ctx, r.Coordinator(ctx))
			return func() { l.Coordinator = err }
		})
	}
	asking.Wait()
	return l
}

// inTime says of an error that comes from the end of ctx that there was no answer. What else the
// error says stays.
func inTime(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	why := strings.NewReplacer(" (context deadline exceeded)", "", "context deadline exceeded",
		"").Replace(err.Error())
	if why = strings.Trim(why, ": "); why != "" {
		why = ": " + why
	}
	return errors.New("it did not answer in time" + why)
}

// errNoCoordinator is why a protocol admits nobody although its server can be used.
var errNoCoordinator = errors.New("the coordinator cannot be asked, so nobody is admitted")

// Ready returns why a protocol admits nobody, or nil.
func (l Look) Ready(protocol string) error {
	if err := l.Protocols[protocol]; err != nil {
		return err
	}
	if l.needed && l.Coordinator != nil {
		return errNoCoordinator
	}
	return nil
}

// Show sets what a look at the readiness has found. One goroutine may call it.
func (m *Metrics) Show(l Look) {
	if l.Coordinated {
		m.coordinator.WithLabelValues().Set(number(l.Coordinator == nil))
	}
	for protocol := range l.Protocols {
		m.ready.WithLabelValues(protocol).Set(number(l.Ready(protocol) == nil))
		for name, err := range l.Databases[protocol] {
			m.databases.WithLabelValues(protocol, m.database(protocol, name)).Set(number(err == nil))
		}
		for name := range m.shown[protocol] {
			if _, open := l.Databases[protocol][name]; !open { // the guard serves it no longer
				m.databases.DeleteLabelValues(protocol, m.database(protocol, name))
			}
		}
	}
	m.shown = l.Databases
}

// Stopped says that a protocol admits nobody any more.
func (m *Metrics) Stopped(protocol string) { m.ready.WithLabelValues(protocol).Set(0) }
