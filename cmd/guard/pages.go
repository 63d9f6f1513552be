package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/page"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/program/version"
	"github.com/ringfence/ringfence/internal/program/webpage"
)

// pages is what GUARD_HTTP_LISTEN serves.
type pages struct {
	registry prometheus.Gatherer
	status   *page.Page   // nil if there is no GUARD_HTTP_LISTEN
	listener net.Listener // the same
}

// statusPage makes the status page, or nil if nobody could look at it.
func (c *config) statusPage(o *observer, f *marks.Follower) *page.Page {
	if c.HTTPListen == "" {
		return nil
	}
	options := page.Options{Guard: hostname(), Version: version.Of().String()}
	if c.Coordinator != "" {
		options.Leaders, options.Followed = o.Leaders, f.Elections
	}
	return page.New(options)
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

// maxAnswer bounds how long an answer takes, also to a client that does not read it.
const maxAnswer = 30 * time.Second

// serve serves the pages until ctx ends. Then it ends the streams of the status page.
func (p pages) serve(
	ctx context.Context, ready guard.Readiness, draining <-chan struct{},
) error {
	if p.status == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/", guard.Handler(ready, p.registry, draining))
	p.status.Register(mux)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p.status.Run(ctx)
		return nil
	})
	group.Go(func() error {
		server := webpage.Server{Handler: mux, Answer: maxAnswer, Grace: time.Second}
		if err := server.Serve(ctx, p.listener); err != nil {
			return fmt.Errorf("GUARD_HTTP_LISTEN: %w", err)
		}
		return nil
	})
	return group.Wait()
}
