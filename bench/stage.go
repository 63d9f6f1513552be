package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	store "github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/servers"
)

// stage is one fully durable Postgres (fsync and synchronous_commit on) and a guard in a separate
// process.
type stage struct {
	pg       *servers.Postgres
	term     *fence.Term
	guard    *exec.Cmd
	guardLog bytes.Buffer
	address  string // the guard's
	probe    string // its HTTP address
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
	if err := s.startGuard(ctx, program); err != nil {
		return s, err
	}
	claim := fence.Claim{
		Resource: "bench", Token: 1<<33 + 5, Issuer: fence.Unverified, Holder: "bench",
	}
	s.term, _ = fence.NewTerm(claim, time.Now(), time.Hour, noCoordinator{})
	return s, store.NewRaiser(s.guardURL()).Raise(ctx, claim)
}

// noCoordinator backs a term without an election.
type noCoordinator struct{}

func (noCoordinator) Acknowledge(context.Context) error { return nil }
func (noCoordinator) Release(context.Context) error     { return nil }

func (s *stage) prepare(ctx context.Context) error {
	err := s.exec(ctx, "postgres", "postgres", "create role guard login", "create role app login",
		"create database "+fenced+" owner app", "create database "+unfenced+" owner app")
	for _, database := range []string{fenced, unfenced} {
		err = errors.Join(err, s.exec(ctx, "app", database, tables),
			store.Install(ctx, s.pg.URL("postgres", database), "guard", "app"))
	}
	if err != nil {
		return err
	}
	return removeFence(ctx, s.pg.URL("postgres", unfenced))
}

func (s *stage) exec(ctx context.Context, role, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.pg.URL(role, database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

func (s *stage) startGuard(ctx context.Context, program string) (err error) {
	at, err := servers.FreeAddresses(2)
	if err != nil {
		return err
	}
	s.address, s.probe = at[0], at[1]
	s.guard = exec.Command(program, "serve")
	s.guard.Env = []string{
		"GUARD_POSTGRES_LISTEN=" + s.address,
		"GUARD_POSTGRES_UPSTREAM=" + s.pg.URL("guard", fenced),
		"GUARD_HTTP_LISTEN=" + s.probe, "GUARD_LOG=warn",
	}
	s.guard.Stderr = &s.guardLog
	if err := s.guard.Start(); err != nil {
		s.guard = nil
		return fmt.Errorf("start the guard: %w", err)
	}
	return s.awaitReady(ctx)
}

func (s *stage) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.probe+"/readyz", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("the guard does not become ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *stage) directURL() string { return s.pg.URL("app", fenced) }

func (s *stage) guardURL() string {
	return strings.Replace(s.directURL(), s.pg.Addr(), s.address, 1)
}

func (s *stage) close() {
	if s.guard != nil {
		_ = s.guard.Process.Signal(syscall.SIGTERM)
		if err := s.guard.Wait(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: the guard: %v\n%s", err, s.guardLog.Bytes())
		}
	}
	if s.pg != nil {
		if err := s.pg.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}
}
