package containers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	driver "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	readyTime     = 60 * time.Second // for a server to answer after its start
	probeTime     = 2 * time.Second  // for one answer
	probeInterval = 50 * time.Millisecond
)

// allReady waits until each of the processes serves.
func (s *System) allReady(ctx context.Context, processes []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTime, fmt.Errorf("not within %v", readyTime))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range processes {
		group.Go(func() error { return s.ready(ctx, p) })
	}
	return group.Wait()
}

// ready probes a process until it answers.
func (s *System) ready(ctx context.Context, process string) error {
	again := time.NewTicker(probeInterval)
	defer again.Stop()
	for {
		err := s.probe(ctx, process)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %w", process, context.Cause(ctx), err)
		}
	}
}

func (s *System) probe(ctx context.Context, process string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	kind, _, _ := strings.Cut(process, "-")
	switch kind {
	case "postgres":
		return probePostgres(ctx, s.settings.postgresURL("postgres", process))
	case "redis":
		return probeRedis(ctx, s.settings.redisURL(process))
	case "guard", scenario.Neighbour:
		return system.Ready(ctx, "http://"+s.settings.host(process)+"/readyz")
	case "etcd":
		return system.Ready(ctx, "http://"+s.settings.host(process)+"/health")
	case "elections":
		at := []string{s.settings.host(process)}
		return probePostgres(ctx, coordinatorOf(s.build.Topology).at(at, s.settings.password))
	case "zookeeper":
		_, err := system.Server{Name: process, Address: s.settings.host(process)}.Mode(ctx)
		return err
	case "toxiproxy":
		_, err := s.toxiproxy.Proxies()
		return err
	}
	return fmt.Errorf("there is no probe for %s", process)
}

func probePostgres(ctx context.Context, url string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

func probeRedis(ctx context.Context, url string) error {
	o, err := driver.ParseURL(url)
	if err != nil {
		return err
	}
	o.MaxRetries = -1
	c := driver.NewClient(o)
	return errors.Join(c.Ping(ctx).Err(), c.Close())
}
