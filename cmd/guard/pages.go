package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/cmd/guard/internal/page"
	"github.com/ringfence/ringfence/cmd/internal/webpage"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/version"
)

// pages is what GUARD_HTTP_LISTEN serves.
type pages struct {
	registry prometheus.Gatherer
	status   *page.Page        // nil if there is no GUARD_HTTP_LISTEN
	tls      *tlsconfig.Server // nil: without TLS
	log      *slog.Logger

	// These are set by open.
	listener net.Listener
	access   atomic.Pointer[webpage.Access]
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
func (p *pages) open(ctx context.Context, c *config, o *openings) (err error) {
	if p.status == nil {
		return nil
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	if p.listener, err = o.listen(ctx, "http", webpage.OnLoopback(c.HTTPListen)); err != nil {
		return fmt.Errorf("GUARD_HTTP_LISTEN: %w", err)
	}
	p.admit(token)
	warnOfReaders(p.log, p.access.Load(), p.tls != nil)
	return nil
}

// admit sets the token, "" for none. Requests that come later need it.
func (p *pages) admit(token string) {
	if p.listener != nil {
		p.access.Store(accessWith(token, p.listener.Addr()))
	}
}

// maxAnswer bounds how long an answer takes, also to a client that does not read it.
const maxAnswer = 30 * time.Second

// serve serves the pages until ctx ends. Then it ends the streams of the status page.
func (p *pages) serve(
	ctx context.Context, ready guard.Readiness, draining <-chan struct{},
) error {
	if p.status == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p.status.Run(ctx)
		return nil
	})
	group.Go(func() error {
		server := webpage.Server{
			Handler: p.handler(ready, draining), Answer: maxAnswer, Grace: time.Second, Log: p.log,
		}
		if err := server.Serve(ctx, p.encrypted()); err != nil {
			return fmt.Errorf("GUARD_HTTP_LISTEN: %w", err)
		}
		return nil
	})
	return group.Wait()
}

// encrypted returns the listener, with TLS if there is a certificate.
func (p *pages) encrypted() net.Listener {
	if p.tls == nil {
		return p.listener
	}
	return tls.NewListener(p.listener, p.tls.Config("http/1.1"))
}

// handler serves all pages. Orchestrators and load balancers have no token, so /livez and /readyz
// need none.
func (p *pages) handler(ready guard.Readiness, draining <-chan struct{}) http.Handler {
	own := guard.Handler(ready, p.registry, draining)
	needsToken := http.NewServeMux()
	needsToken.Handle("/", own)
	p.status.Register(needsToken)
	all := http.NewServeMux()
	for _, path := range []string{"/livez", "/readyz", "/readyz/"} {
		all.Handle(path, own)
	}
	all.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if code, why := p.access.Load().Refuse(w.Header(), r); why != nil {
			webpage.Secure(w.Header())
			http.Error(w, why.Error(), code)
			return
		}
		needsToken.ServeHTTP(w, r)
	})
	return all
}
