// Flawed-guard is a guard with a deliberate bug, named by FLAW (package flaw), to test that the lab
// finds it. Its other settings are guard's. It protects nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard"
	"github.com/ringfence/ringfence/internal/guard/redisguard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/lab/flaw"
)

// config has those of guard's settings that the lab uses.
type config struct {
	Flaw             flaw.Name     `env:"FLAW,required"`
	PostgresListen   string        `env:"GUARD_POSTGRES_LISTEN,required"`
	PostgresUpstream string        `env:"GUARD_POSTGRES_UPSTREAM,required"`
	RedisListen      string        `env:"GUARD_REDIS_LISTEN,required"`
	RedisUpstream    string        `env:"GUARD_REDIS_UPSTREAM,required"`
	Coordinator      string        `env:"GUARD_COORDINATOR"`
	HTTPListen       string        `env:"GUARD_HTTP_LISTEN,required"`
	DrainTimeout     time.Duration `env:"GUARD_DRAIN_TIMEOUT" envDefault:"5s"`
}

// main writes the log straight to standard error, and not with logging.Open: that is the flaw
// LogInPath. It shows only if nothing reads the log.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := serve(ctx, log); err != nil {
		log.Error("the flawed guard has stopped", "err", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, log *slog.Logger) (err error) {
	c, err := env.ParseAs[config]()
	if err != nil {
		return err
	}
	log.Warn("this guard is flawed on purpose, for the lab: it protects nothing", "flaw", c.Flaw)
	authority, leave, err := c.authority(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	registry := prometheus.NewRegistry()
	metrics := guard.NewMetrics(registry)
	protocols, err := c.protocols(ctx, log, metrics, authority)
	for _, p := range protocols {
		defer p.Close()
	}
	if err != nil {
		return err
	}
	var servers []*guard.Server
	for i, address := range []string{c.PostgresListen, c.RedisListen} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		defer listener.Close()
		servers = append(servers, &guard.Server{
			Protocol: protocols[i], Listener: listener, Log: log, Metrics: metrics,
			DrainTimeout: c.DrainTimeout,
		})
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range servers {
		group.Go(func() error { return s.Serve(ctx) })
	}
	ready := guard.Readiness{Protocols: protocols}
	page := guard.Handler(ready, registry, ctx.Done())
	group.Go(func() error { return servePage(ctx, c.HTTPListen, page) })
	group.Go(func() error { return look(ctx, ready) })
	return group.Wait()
}

// look looks at the stores each second until ctx ends. After a failover that moves the control
// connections to the new primary.
func look(ctx context.Context, r guard.Readiness) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		r.Look(ctx, time.Second)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// servePage serves until ctx ends.
func servePage(ctx context.Context, address string, h http.Handler) error {
	page := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 5 * time.Second}
	unhook := context.AfterFunc(ctx, func() { _ = page.Close() })
	defer unhook()
	if err := page.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// authority returns guard's authority, with the flaw.
func (c config) authority(
	ctx context.Context, log *slog.Logger,
) (_ marks.Authority, stop func() error, err error) {
	if c.Coordinator == "" {
		return flaw.Authority(c.Flaw, marks.Unverified{}), func() error { return nil }, nil
	}
	coordinator, err := coordinators.All.Open(ctx, settings.URL(c.Coordinator),
		coordinators.Options{Logger: log})
	if err != nil {
		return nil, nil, fmt.Errorf("GUARD_COORDINATOR: %w", err)
	}
	return flaw.Authority(c.Flaw, marks.Elected{Observer: coordinator}), coordinator.Close, nil
}

// protocols returns Postgres and Redis, with the flaw. With an error it returns those that are
// open.
func (c config) protocols(
	ctx context.Context, log *slog.Logger, m *guard.Metrics, who marks.Authority,
) ([]guard.Protocol, error) {
	admission := func(
		name string, real marks.Store, end flaw.End,
	) (*marks.Admission, error) {
		flawed, err := flaw.Store(c.Flaw, real, end, log.With("protocol", name))
		audit := guard.NewAudit(log, m, name)
		a := &marks.Admission{Store: flawed, Authority: who, Notify: audit.Event}
		if c.Flaw == flaw.Forgetful {
			a.Notify = func(e marks.Event) {
				audit.Event(e)
				a.Forget()
			}
		}
		return a, err
	}
	pg, err := pgmarks.Open(c.PostgresUpstream, pgmarks.Options{})
	if err != nil {
		return nil, err
	}
	a, err := admission("postgres", pg, flaw.EndPostgres(c.PostgresUpstream))
	all := []guard.Protocol{pgguard.New(pgguard.Options{Store: pg, Admission: a})}
	if err != nil {
		return all, err
	}
	end, err := flaw.EndRedis(c.RedisUpstream)
	if err != nil {
		return all, err
	}
	coordinated := redismarks.Options{Coordinated: c.Coordinator != "", Reserved: true}
	db, err := redismarks.Open(ctx, c.RedisUpstream, coordinated)
	if err != nil {
		return all, err
	}
	a, err = admission("redis", db, end)
	options := redisguard.Options{Store: db, Admission: a}
	if c.Flaw == flaw.OneServer {
		options.Watch = unwatched(db)
	}
	if c.Flaw == flaw.Renamed {
		return append(all, trusting(db, a)), err
	}
	return append(all, redisguard.New(options)), err
}
