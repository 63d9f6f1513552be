package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// stage is one fully durable Postgres (fsync and synchronous_commit on) and a guard in a separate
// process.
type stage struct {
	pg    *servers.Postgres
	term  *fence.Term
	guard *ways.GuardProcess
}

// The databases. Only the contender without the fence uses the second.
const (
	fenced   = "fenced"
	unfenced = "unfenced"
)

// tables are for the contenders' own statements.
const tables = `create table ledger (
		id bigserial primary key, task text not null, n bigint not null, amount bigint not null);
	create table progress (
		task text primary key, step bigint not null, state jsonb not null,
		saved_at timestamptz not null);`

func newStage(ctx context.Context, program string) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.pg, err = servers.StartPostgres(ctx, servers.PostgresOptions{Settings: map[string]string{
		"shared_buffers": "128MB", // the default
		// No checkpoint may come during a measurement: the writes of one contender would cost
		// another.
		"checkpoint_timeout": "1h", "max_wal_size": "8GB",
	}})
	if err != nil {
		return s, err
	}
	if err := s.prepare(ctx); err != nil {
		return s, err
	}
	s.guard, err = ways.StartGuard(ctx, ways.GuardOptions{
		Program: program, Postgres: s.pg.URL("guard", fenced),
	})
	if err != nil {
		return s, err
	}
	claim := fence.Claim{
		Resource: "bench", Token: 1<<33 + 5, Issuer: elector.Unverified, Holder: "bench",
	}
	s.term, _ = elector.NewTerm(claim, time.Now(), time.Hour, noCoordinator{})
	return s, pgmarks.NewRaiser(s.guardURL()).Raise(ctx, claim)
}

// noCoordinator backs a term without an election.
type noCoordinator struct{}

func (noCoordinator) Acknowledge(context.Context) error { return nil }
func (noCoordinator) Release(context.Context) error     { return nil }

func (s *stage) prepare(ctx context.Context) error {
	err := ways.Exec(ctx, s.pg.URL("postgres", "postgres"), "create role guard login", "create role "+
		"app login",
		"create database "+fenced+" owner app", "create database "+unfenced+" owner app")
	for _, database := range []string{fenced, unfenced} {
		err = errors.Join(err, ways.Exec(ctx, s.pg.URL("app", database), tables),
			pgmarks.Install(ctx, s.pg.URL("postgres", database), "guard", "app"))
	}
	if err != nil {
		return err
	}
	return removeFence(ctx, s.pg.URL("postgres", unfenced))
}

func (s *stage) directURL() string { return s.pg.URL("app", fenced) }

func (s *stage) guardURL() string {
	return strings.Replace(s.directURL(), s.pg.Addr(), s.guard.Postgres, 1)
}

func (s *stage) close() {
	if s.guard != nil {
		if err := s.guard.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
	if s.pg != nil {
		if err := s.pg.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
}
