package local

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	database = "postgres"
	root     = "/lab" // of the elections at the coordinator
)

// startServers starts all servers at once.
func (s *System) startServers(ctx context.Context) error {
	t := s.build.Topology
	err := atOnce([]func() error{
		func() (err error) {
			if t.Elections.InStore() {
				return nil
			}
			started, err := startCoordinator(ctx, t, s.tls)
			if err == nil {
				s.elects = started
			}
			return err
		},
		func() error { return s.startPostgres(ctx) },
		func() error { return s.startRedis(ctx) },
	})
	if err == nil && t.Elections.InStore() {
		s.elects = electionsInStore{s}
	}
	if s.elects != nil {
		all := s.elects.processes()
		for i, name := range t.CoordinatorNames() {
			s.processes[name] = all[i]
		}
	}
	for i, n := range s.nodes {
		s.processes[t.PostgresNames()[i]] = n
	}
	if s.redis != nil {
		s.processes["redis"] = s.redis
	}
	if s.replica != nil {
		s.processes[scenario.Redis2] = s.replica
	}
	return err
}

// startRedis starts Redis, and its replica if it has one.
func (s *System) startRedis(ctx context.Context) (err error) {
	t := s.build.Topology
	args := []string{"--appendonly", "yes", "--appendfsync", cmp.Or(t.RedisFsync, "always")}
	if t.Debug {
		args = append(args, "--enable-debug-command", "yes")
	}
	for _, setting := range t.RedisSettings {
		name, value, _ := strings.Cut(setting, "=")
		args = append(append(args, "--"+name), strings.Fields(value)...)
	}
	s.redis, err = s.startOneRedis(ctx, args)
	if err != nil || !t.Replica {
		return err
	}
	host, port, err := net.SplitHostPort(s.redis.Addr())
	if err != nil {
		return err
	}
	s.replica, err = s.startOneRedis(ctx, append(args, "--replicaof", host, port))
	if err != nil || !t.Sentinels {
		return err
	}
	return s.startSentinels(ctx)
}

// startOneRedis starts one server. With TLS it has a second port, for guards and workers.
func (s *System) startOneRedis(ctx context.Context, args []string) (*servers.Redis, error) {
	if s.tls == nil {
		return servers.StartRedis(ctx, servers.RedisOptions{Args: args})
	}
	at, err := servers.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(at[0])
	if err != nil {
		return nil, err
	}
	r, err := servers.StartRedis(ctx, servers.RedisOptions{Args: append(s.tls.ofRedis(port), args...)})
	if err == nil {
		s.secure[r.Addr()] = at[0]
	}
	return r, err
}

// startPooler starts PgBouncer for workers on the path SQL.
func (s *System) startPooler(ctx context.Context) (err error) {
	t := s.build.Topology
	if t.Route != scenario.SQL || t.Cluster != "" { // PgBouncer has one upstream
		return nil
	}
	s.pooler, err = servers.StartPgBouncer(ctx, s.pg, servers.PgBouncerOptions{
		User: "app", Mode: "transaction",
	})
	if err == nil {
		s.processes[scenario.Pooler] = s.pooler
	}
	return err
}

// startCopy starts the second Postgres, if there is one.
func (s *System) startCopy(ctx context.Context) error {
	if !s.build.Topology.Copy {
		return nil
	}
	c, err := s.pg.StartCopy(ctx, scenario.Postgres2)
	if err == nil {
		s.processes[scenario.Postgres2] = c
	}
	return err
}

func pgSettings(t scenario.Topology) map[string]string {
	settings := map[string]string{"wal_keep_size": "4GB"} // the evidence of a run
	for _, setting := range t.PGSettings {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	return settings
}

// prepareDatabase creates the roles and the tables for evidence.
func (s *System) prepareDatabase(ctx context.Context) error {
	if s.build.Topology.OwnLocale {
		if err := s.localizeDatabase(ctx); err != nil {
			return err
		}
	}
	statements := []string{"create role guard login", "create role app login"}
	if s.build.Topology.Neighbour {
		statements = append(statements, "create database "+scenario.NeighbourDatabase)
	}
	return system.Exec(ctx, s.Addresses().Postgres,
		append(statements, system.Tables)...)
}

// localizeDatabase creates the database again, with the locale that SortAnew changes.
func (s *System) localizeDatabase(ctx context.Context) error {
	create := fmt.Sprintf("create database %s template template0 lc_collate '%s' lc_ctype '%[2]s'",
		database, servers.OwnLocale)
	return system.Exec(ctx, s.asSuperuser("template1"), "drop database "+database+" with "+
		"(force)", create)
}
