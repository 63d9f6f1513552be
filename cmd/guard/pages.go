package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/page"
)

// pages is what GUARD_HTTP_LISTEN serves.
type pages struct {
	registry prometheus.Gatherer
	metrics  *guard.Metrics
	status   *page.Page   // nil if there is no GUARD_HTTP_LISTEN
	listener net.Listener // the same
}

// statusPage makes the status page, or nil if nobody could look at it.
func (c *config) statusPage() *page.Page {
	if c.HTTPListen == "" {
		return nil
	}
	return page.New(hostname())
}

// open opens the address of the pages, if there is one.
func (p *pages) open(ctx context.Context, address string, o *openings) (err error) {
	if p.status == nil {
		return nil
	}
	if p.listener, err = o.listen(ctx, "http", address); err != nil {
		return fmt.Errorf("GUARD_HTTP_LISTEN: %w", err)
	}
	return nil
}

// serve serves the pages until ctx ends. Then it ends the streams of the status page.
func (p pages) serve(
	ctx context.Context, protocols []guard.Protocol, draining <-chan struct{},
) error {
	if p.status == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/", guard.Handler(protocols, p.registry, draining))
	p.status.Register(mux)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p.status.Run(ctx)
		return nil
	})
	group.Go(func() error { return serveHTTP(ctx, p.listener, mux) })
	return group.Wait()
}

// serveHTTP serves until ctx ends. Requests that take longer than a second after that are cut off.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(stopped)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.Shutdown(bounded) != nil {
			_ = s.Close()
		}
	})
	err := s.Serve(l)
	if !unhook() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("GUARD_HTTP_LISTEN: %w", err)
}
