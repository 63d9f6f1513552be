package worker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// live serves /livez if it is configured: 200 once the coordinator was reached. stop ends it.
func (w *worker) live() (stop func(), err error) {
	if w.c.HTTPListen == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", w.c.HTTPListen)
	if err != nil {
		return nil, fmt.Errorf("LAB_HTTP_LISTEN: %w", err)
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /livez", func(out http.ResponseWriter, _ *http.Request) {
		if w.c.Kind != scenario.Commands && !w.reached.Load() {
			http.Error(out, "the coordinator was not reached yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(out, "ok")
	})
	server := &http.Server{Handler: routes, ReadHeaderTimeout: time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return func() { _ = server.Close(); serving.Wait() }, nil
}

// Healthy requests the health page of the worker that listens at an address, such as ":9090". It is
// for health checks in a container that has no other program. The error says what is wrong.
func Healthy(ctx context.Context, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("LAB_HTTP_LISTEN: %w", err)
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return system.Ready(ctx, "http://"+net.JoinHostPort(host, port)+"/livez")
}
