package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

var _ system.Cluster = (*System)(nil)

const (
	lookAgain = 50 * time.Millisecond
	askTime   = time.Second // for one question to one server
)

// node is a server of Postgres.
type node interface {
	process
	Addr() string
	URL(user, database string) string
}

// startPostgres starts one server, or a cluster.
func (s *System) startPostgres(ctx context.Context) error {
	t := s.build.Topology
	if t.Cluster == scenario.Patroni {
		return s.startPatroni(ctx)
	}
	o := s.tls.ofPostgres(pgSettings(t))
	o.OwnLocale = t.OwnLocale
	p, err := servers.StartPostgres(ctx, o)
	if err != nil {
		return err
	}
	s.pg, s.nodes = p, []node{p}
	if t.Cluster == scenario.Standbys {
		return s.startStandbys(ctx)
	}
	return nil
}

// startStandbys starts servers that stream from the first one.
func (s *System) startStandbys(ctx context.Context) error {
	for _, name := range s.build.Topology.PostgresNames()[1:] {
		standby, err := s.pg.StartStandby(ctx, name)
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, standby)
		if err := system.AwaitStream(ctx, standby.URL("postgres", database)); err != nil {
			return err
		}
	}
	return nil
}

func (s *System) startPatroni(ctx context.Context) (err error) {
	t := s.build.Topology
	s.patroni, err = servers.StartPatroni(ctx, len(t.PostgresNames()),
		servers.PatroniOptions{Settings: pgSettings(t)})
	if err != nil {
		return err
	}
	for _, n := range s.patroni.Nodes {
		s.nodes = append(s.nodes, n)
	}
	if t.Beside && t.Elections == scenario.InTheStore {
		return s.startElectionsBalancer(ctx)
	}
	return nil
}

// postgresLegs are where guards and workers reach Postgres: the servers that may be the primary.
func (s *System) postgresLegs() (all []string) {
	for _, n := range s.nodes {
		all = append(all, n.Addr())
	}
	return all
}

// postgresAt is the same as the host of a URL.
func (s *System) postgresAt() string { return strings.Join(s.postgresLegs(), ",") }

// primaryAt is where the lab and operators reach the primary. Of Patroni it is the one that Patroni
// names: another one may go on beside it.
func (s *System) primaryAt() string {
	if s.patroni != nil {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		if n, err := s.patroni.Primary(ctx); err == nil {
			return n.Addr()
		}
	}
	return s.postgresAt()
}

// asSuperuser returns the URL for the lab itself, without TLS.
func (s *System) asSuperuser(database string) string {
	return (*encryption)(nil).postgres("postgres", s.primaryAt(), database)
}

// Primary implements system.Cluster. It waits while there is none.
func (s *System) Primary(ctx context.Context) (name string, err error) {
	for {
		for i, n := range s.nodes {
			if s.isPrimary(ctx, n) {
				return s.build.Topology.PostgresNames()[i], nil
			}
		}
		if err := system.Sleep(ctx, lookAgain); err != nil {
			return "", fmt.Errorf("no server of Postgres is the primary: %w", err)
		}
	}
}

func (s *System) isPrimary(ctx context.Context, n node) bool {
	if p, ok := n.(*servers.PatroniNode); ok {
		return p.IsPrimary(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := system.Exec(ctx, n.URL("postgres", database),
		"do $$ begin if pg_is_in_recovery() then raise 'a standby'; end if; end $$")
	return err == nil
}

// MakePrimary implements system.Cluster. Patroni hands the role over in order. A standby is
// promoted, whatever the primary does.
func (s *System) MakePrimary(ctx context.Context, name string) error {
	to, err := s.nodeOf(name)
	if err != nil {
		return err
	}
	if s.patroni == nil {
		return system.Exec(ctx, to.URL("postgres", database), "select pg_promote()")
	}
	from, err := s.patroni.Primary(ctx)
	if err != nil {
		return err
	}
	return s.patroni.Switchover(ctx, from, to.(*servers.PatroniNode))
}

// Crash implements system.Cluster.
func (s *System) Crash(_ context.Context, name string) error {
	n, err := s.nodeOf(name)
	if err != nil {
		return err
	}
	p, ok := n.(*servers.PatroniNode)
	if !ok {
		return errors.New("only Patroni starts a Postgres again that has crashed")
	}
	return p.KillPostmaster()
}

func (s *System) nodeOf(name string) (node, error) {
	for i, known := range s.build.Topology.PostgresNames() {
		if known == name {
			return s.nodes[i], nil
		}
	}
	return nil, fmt.Errorf("%s is no server of Postgres", name)
}
