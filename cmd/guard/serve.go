package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/internal/logging"
	"github.com/ringfence/ringfence/cmd/internal/systemd"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/version"
)

func (p *program) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Args: cobra.NoArgs,
		Short: "Accept clients and admit only sessions under a current token",
		RunE:  p.using(p.serve, served...),
	}
}

// served is what guard serve uses of the settings.
var served = []string{useStores, useCoordinator, useResources, usePages, useServing}

// serve runs until ctx ends and every client is gone.
func (p *program) serve(ctx context.Context, c *config, _ []string) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	level := &slog.LevelVar{}
	level.Set(c.Log)
	log := logging.New(p.Stderr, level)
	logDrivers(log)
	unit := newUnit(p.Env, log)
	defer unit.close()
	sockets, err := systemd.Inherited(p.Env)
	if err != nil {
		return err
	}
	defer sockets.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := guard.NewMetrics(registry)
	metrics.DroppedLines(logging.Dropped(p.Stderr))
	authority, observer := c.authority(log)
	defer observer.Close()
	elections := c.follower(observer, log)
	watchers := watchers{status: c.statusPage(observer, elections), elections: elections}
	if elections != nil {
		metrics.Elections(elections.Elections)
	}

	log.LogAttrs(ctx, slog.LevelInfo, "starting",
		slices.Concat([]slog.Attr{slog.String("version", version.Of().String())},
			settings.Given(c, c.given, c.uses...))...)
	log.LogAttrs(ctx, slog.LevelDebug, "settings", settings.Effective(c, c.uses...)...)
	loops, err := c.loops()
	if err != nil {
		return err
	}
	defer loops.Close()
	encryption, err := c.tls(log, metrics)
	if err != nil {
		return err
	}
	c.ownCertificates(metrics)
	open := &openings{sockets: sockets, timeouts: c.common().Timeouts}
	servers, err := c.open(ctx, log, metrics, watchers, authority, loops, encryption, open)
	defer func() {
		for _, s := range servers {
			if s.Listener != nil {
				_ = s.Listener.Close() // another one could not be opened
			}
			s.Protocol.Close()
		}
	}()
	defer watchers.elections.Close()
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return cli.Mistake("nothing to serve: set " + oneOfEach("LISTEN") +
			"; or GUARD_COORDINATOR, to raise marks without clients")
	}
	if slices.ContainsFunc(servers, func(s *guard.Server) bool { return s.Listener == nil }) {
		elections.FollowDirect(c.common().Resources)
	}
	pages := &pages{registry: registry, status: watchers.status, log: log}
	if pages.tls, err = certificate("pages", c.httpFiles(), log, metrics); err != nil {
		return fmt.Errorf("GUARD_HTTP_TLS_CERT, GUARD_HTTP_TLS_KEY: %w", err)
	}
	if err := pages.open(ctx, c, open); err != nil {
		return err
	}
	for _, name := range sockets.Left() {
		log.Warn("a socket was passed that no setting names, so nothing accepts on it", "socket", name)
	}
	reloads := &reloader{
		load: func() (*config, error) { return load(p.Env, served...) },
		log:  log, level: level, tls: encryption.Server, pages: pages, servers: servers, unit: unit,
		now: c,
	}
	unit.serving(open.opened)
	return serveAll(ctx, c, log, servers, pages,
		lifecycle{unit, metrics, loops, reloads, hangups, observer})
}

// lifecycle is what a guard does for its service manager and its operator.
type lifecycle struct {
	unit    *unit
	metrics *guard.Metrics
	loops   *relay.Loops
	reloads *reloader
	hangups <-chan os.Signal
	who     *observer
}

// loops starts the loops in which sessions are relayed.
func (c *config) loops() (*relay.Loops, error) {
	if c.Relay == "goroutines" {
		return nil, nil
	}
	return relay.StartLoops(loops())
}

// loops returns how many loops a guard has: one for two processors, because the more sessions a
// loop has, the more it moves at a time. A loop keeps one of Go's processors while it waits, so
// there is one more for each, once for the process.
var loops = sync.OnceValue(func() int {
	processors := runtime.GOMAXPROCS(0)
	loops := (processors + 1) / 2
	runtime.GOMAXPROCS(processors + loops)
	return loops
})

// open opens stores and listeners. It returns those that it has opened also with an error.
func (c *config) open(
	ctx context.Context, log *slog.Logger, m *guard.Metrics, w watchers,
	who marks.Authority, loops *relay.Loops, encryption guard.TLS, listeners *openings,
) ([]*guard.Server, error) {
	var all []*guard.Server
	common := c.common()
	common.TLS = encryption
	for _, of := range c.configured() {
		address, _ := of.Addresses()
		if address == "" && w.elections == nil {
			continue // there is nothing to do here
		}
		name := of.name()
		audit := guard.NewAudit(log, m, name)
		open := func(of server, home bool) (guard.Opened, error) {
			a := &marks.Admission{
				Authority: who, Timeout: c.AdmitTimeout, Recheck: c.StaleRecheck, Direct: address == "",
			}
			common := common
			if home {
				common.Primary = func(address string) {
					log.Info("the server that is the primary", "protocol", name, "address", address)
				}
			}
			db, err := of.Open(ctx, common, a.Forget)
			if err != nil {
				return guard.Opened{}, err
			}
			a.Store = db
			return guard.Opened{Store: db, Admission: a, Closing: w.watch(of, a, audit, home)}, nil
		}
		db, err := open(of, true)
		if err != nil {
			return all, fmt.Errorf("%s: %w", name, err)
		}
		s := &guard.Server{
			Protocol: of.Serve(guard.Service{
				Common: common, Opened: db, Name: name, Audit: audit,
				Another: func(database string) (guard.Opened, error) { return open(of.in(database), false) },
			}),
			Log: log, Metrics: m, Loops: loops, Audit: audit,
			Limits: c.limits(), DrainTimeout: c.DrainTimeout, Proxies: c.proxies(),
		}
		all = append(all, s)
		if err := firstProbe(ctx, s.Protocol); err != nil {
			return all, fmt.Errorf("%s: cannot guard this server: %w", name, err)
		}
		warn(ctx, log, name, db.Store)
		if address == "" {
			log.Info("raising marks as elections are decided; no client comes through this guard",
				"protocol", name)
			continue
		}
		if s.Listener, err = listeners.listen(ctx, name, address); err != nil {
			return all, fmt.Errorf("%s: %w", name, err)
		}
		log.Info("listening", "protocol", name, "address", displayAddress(s.Listener))
	}
	return all, nil
}

// warn logs server settings that are allowed, but rarely intended.
func warn(ctx context.Context, log *slog.Logger, name string, d guard.Store) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if w, ok := d.(interface{ Warning(context.Context) string }); ok && w.Warning(ctx) != "" {
		log.Warn(w.Warning(ctx), "protocol", name)
	}
}

// firstProbe fails the start on errors that retrying cannot fix. A server that is down, that may
// still be promoted, or where guard install has not run yet, is no such error.
func firstProbe(ctx context.Context, p guard.Protocol) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var setup *fence.SetupError
	if err := p.Ready(ctx); errors.As(err, &setup) && !setup.Passes {
		return err
	}
	return nil
}

// serveAll runs all servers concurrently; the first failure stops the others. When ctx ends, the
// guard is not ready any more, and stops serving GUARD_DRAIN_DELAY later.
func serveAll(
	ctx context.Context, c *config, log *slog.Logger, servers []*guard.Server, h *pages, l lifecycle,
) error {
	signalled := ctx
	group, ctx := errgroup.WithContext(ctx)
	serving, drain := context.WithCancel(context.WithoutCancel(ctx))
	// It ends when a server stops by itself: then there is nothing to wait for.
	failed, fails := context.WithCancel(context.WithoutCancel(ctx))
	defer fails()
	group.Go(func() error {
		defer drain()
		<-ctx.Done()
		if signalled.Err() != nil {
			log.Info("shutting down", "delay", c.DrainDelay.String(), "timeout", c.DrainTimeout.String())
			l.unit.stops(c.DrainDelay, c.DrainTimeout)
			backoff.Pause(failed, c.DrainDelay)
		}
		return nil
	})
	ready := c.readiness(l.who)
	clients, clientsGone := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan struct{}, len(servers))
	for _, s := range servers {
		ready.Protocols = append(ready.Protocols, s.Protocol)
		group.Go(func() error {
			defer func() { left <- struct{}{} }()
			defer fails()
			return s.Serve(serving)
		})
	}
	group.Go(func() error {
		(&readiness{
			Readiness: ready, log: log, metrics: l.metrics, unit: l.unit, page: h.status,
		}).watch(ctx)
		return nil
	})
	group.Go(func() error {
		l.reloads.run(ctx, l.hangups)
		return nil
	})
	group.Go(func() error {
		l.unit.beat(clients, l.loops)
		return nil
	})
	group.Go(func() error { // the HTTP pages are served until the last client is gone
		defer clientsGone()
		for range servers {
			<-left
		}
		return nil
	})
	group.Go(func() error {
		return h.serve(clients, ready, ctx.Done())
	})
	err := group.Wait()
	log.Info("stopped")
	return err
}
