package worker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab"
)

// live serves /livez, if it is asked for: 200 once the coordinator was reached. stop waits for it.
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
		if w.c.Kind != lab.Commands && !w.reached.Load() {
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

// Healthy asks the worker that listens at an address, such as ":9090", whether it is well; for a health check in a
// container that has no other program. The error says what is wrong.
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
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/livez", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", answer.Status)
	}
	return nil
}
