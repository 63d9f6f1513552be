package jobs

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// Ways to hand out jobs.
const (
	zooKeeper = "zookeeper"
	etcd      = "etcd"
	postgres  = "postgres"
	withRiver = "river"
)

var allWays = []string{zooKeeper, etcd, postgres, withRiver}

const serversNote = "zookeeper: an ensemble of three, fsync on, ticks of 200 ms. etcd: three " +
	"members, fsync on, default heartbeats. postgres and river: databases of one server, fsync on."

// running are the servers that run for the benchmark.
type running struct {
	urls   map[string]string // by way
	stores map[string]string // URLs
	close  []func() error
}

// start starts what the ways need.
func start(ctx context.Context, ways []string) (r *running, err error) {
	r = &running{urls: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if slices.Contains(ways, zooKeeper) {
		z, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{Nodes: 3})
		if err != nil {
			return r, err
		}
		r.add(zooKeeper, "zk://"+z.Addr()+"/bench", z.Close)
	}
	if slices.Contains(ways, etcd) {
		e, err := servers.StartEtcd(ctx, servers.EtcdOptions{Members: 3, Args: []string{
			"--unsafe-no-fsync=false", "--heartbeat-interval", "100", "--election-timeout", "1000",
		}})
		if err != nil {
			return r, err
		}
		r.add(etcd, "etcd://"+e.Addr()+"/bench", e.Close)
	}
	if slices.Contains(ways, postgres) || slices.Contains(ways, withRiver) {
		return r, r.startPostgres(ctx)
	}
	return r, nil
}

func (r *running) startPostgres(ctx context.Context) error {
	p, err := servers.StartPostgres(ctx, servers.PostgresOptions{Settings: map[string]string{
		"shared_buffers": "128MB", "max_connections": "300",
	}})
	if err != nil {
		return err
	}
	r.close = append(r.close, p.Close)
	conn, err := pgx.Connect(ctx, p.URL("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for way, database := range map[string]string{postgres: "elections", withRiver: "river"} {
		if _, err := conn.Exec(ctx, "create database "+database); err != nil {
			return err
		}
		r.urls[way] = p.URL("postgres", database)
	}
	return migrateRiver(ctx, r.urls[withRiver])
}

func (r *running) add(way, url string, close func() error) {
	r.urls[way] = url
	r.close = append(r.close, close)
}

// Close stops the servers.
func (r *running) Close() (err error) {
	for _, stop := range r.close {
		err = errors.Join(err, stop())
	}
	return err
}
