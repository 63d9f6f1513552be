package guardtest

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/internal/guard"
)

// Serve is a guard on loopback that lasts as long as the test. It returns its address.
func Serve(t *testing.T, p guard.Protocol) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &guard.Server{
		Protocol: p, Listener: l, Log: slog.New(slog.DiscardHandler),
		Metrics: guard.NewMetrics(prometheus.NewRegistry()), DrainTimeout: time.Second,
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(ctx) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return l.Addr().String()
}
