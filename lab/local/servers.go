package local

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/lab"
)

const (
	database = "postgres"
	root     = "/lab" // of the elections at the coordinator
)

// startServers starts all servers at once.
func (s *System) startServers(ctx context.Context) error {
	err := atOnce([]func() error{
		func() (err error) {
			s.zk, err = servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{
				Nodes: max(1, s.build.Topology.ZooKeepers), TickTime: s.build.Topology.TickTime(),
			})
			return err
		},
		func() (err error) {
			s.pg, err = servers.StartPostgres(ctx, servers.PostgresOptions{Settings: pgSettings(s.build.Topology)})
			return err
		},
		func() error { return s.startRedis(ctx) },
	})
	if s.zk != nil {
		for i, name := range s.build.Topology.ZooKeeperNames() {
			s.processes[name] = s.zk.Nodes[i]
		}
	}
	if s.pg != nil {
		s.processes["postgres"] = s.pg
	}
	if s.redis != nil {
		s.processes["redis"] = s.redis
	}
	if s.replica != nil {
		s.processes[lab.Redis2] = s.replica
	}
	return err
}

// startRedis starts Redis, and its replica if it has one.
func (s *System) startRedis(ctx context.Context) (err error) {
	t := s.build.Topology
	if s.redis, err = servers.StartRedis(ctx, servers.RedisOptions{Args: redisArgs(t)}); err != nil || !t.Replica {
		return err
	}
	host, port, err := net.SplitHostPort(s.redis.Addr())
	if err != nil {
		return err
	}
	s.replica, err = servers.StartRedis(ctx, servers.RedisOptions{Args: append(redisArgs(t), "--replicaof", host, port)})
	return err
}

// startCopy starts the second Postgres, if there is one.
func (s *System) startCopy(ctx context.Context) error {
	if !s.build.Topology.Copy {
		return nil
	}
	c, err := s.pg.StartCopy(ctx, lab.Postgres2)
	if err == nil {
		s.processes[lab.Postgres2] = c
	}
	return err
}

func pgSettings(t lab.Topology) map[string]string {
	settings := map[string]string{"wal_level": "logical", "max_replication_slots": "4"}
	for _, setting := range t.PGSettings {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	return settings
}

func redisArgs(t lab.Topology) []string {
	fsync := t.RedisFsync
	if fsync == "" {
		fsync = "always"
	}
	return []string{"--appendonly", "yes", "--appendfsync", fsync}
}

// prepareDatabase makes the roles and the tables for evidence, each statement in its own transaction: a slot cannot be
// made in one that has written.
func (s *System) prepareDatabase(ctx context.Context) error {
	statements := []string{"create role guard login", "create role app login"}
	if s.build.Topology.Neighbour {
		statements = append(statements, "create database "+lab.NeighbourDatabase)
	}
	return s.asSuperuser(ctx, append(statements, strings.Split(lab.Tables, ";\n")...)...)
}

func (s *System) asSuperuser(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, s.Addresses().Postgres)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(sql), err)
		}
	}
	return nil
}
