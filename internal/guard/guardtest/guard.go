package guardtest

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
)

// Guard is a guard in this process, on a loopback port. It lasts as long as the test.
type Guard struct {
	Addr    string
	Metrics *prometheus.Registry

	t    *testing.T
	stop func()
}

// Options change how Start runs a guard.
type Options struct {
	Drain time.Duration // the server's DrainTimeout; 2 s when zero
	// changes the server before it starts, such as its limits; may be nil
	Change func(*guard.Server)
}

// Start starts a guard that serves the protocol that open returns. The guard closes the protocol
// when it stops.
func Start(t *testing.T, o Options, open func(*slog.Logger, *guard.Metrics) guard.Protocol) *Guard {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	g := &Guard{Addr: l.Addr().String(), Metrics: prometheus.NewRegistry(), t: t}
	metrics := guard.NewMetrics(g.Metrics)
	p := open(log, metrics)
	loops := relayLoops(t)
	srv := &guard.Server{
		Protocol: p, Listener: l, Log: log, Metrics: metrics, Loops: loops, DrainTimeout: o.Drain,
	}
	if o.Drain == 0 {
		srv.DrainTimeout = 2 * time.Second
	}
	if o.Change != nil {
		o.Change(srv)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		must.Report(t, <-done)
		loops.Close()
		p.Close()
	})
	t.Cleanup(g.stop)
	return g
}

// relayLoops returns the loops in which the guard relays, or nil where GUARD_RELAY says goroutines.
func relayLoops(t *testing.T) *relay.Loops {
	t.Helper()
	if os.Getenv("GUARD_RELAY") == "goroutines" {
		return nil
	}
	loops, err := relay.StartLoops(0)
	must.Succeed(t, err)
	return loops
}

// Stop shuts the guard down and returns when it has stopped. A second call does nothing.
func (g *Guard) Stop() { g.stop() }

// Serve starts a guard for tests that only need its address. The guard closes the protocol when it
// stops.
func Serve(t *testing.T, p guard.Protocol) (address string) {
	t.Helper()
	return Start(t, Options{Drain: time.Second}, func(*slog.Logger, *guard.Metrics) guard.Protocol {
		return p
	}).Addr
}

// Metric returns the value of a counter or gauge, or how often a histogram was observed: the sum of
// its series that have this label value.
func (g *Guard) Metric(name, label string) (sum float64) {
	g.t.Helper()
	families, err := g.Metrics.Gather()
	must.Succeed(g.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
						float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return sum
}

// AwaitMetric waits until a metric has the value.
func (g *Guard) AwaitMetric(name, label string, want float64) {
	g.t.Helper()
	var got float64
	if !poll.Until(30*time.Second, func() bool { got = g.Metric(name, label); return got == want }) {
		g.t.Fatalf("%s{%s} is %v and did not become %v", name, label, got, want)
	}
}
