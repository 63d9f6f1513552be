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
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// stage holds the servers of the demo.
type stage struct {
	zk    *servers.ZooKeeper
	pg    *servers.Postgres
	redis *servers.Redis

	program  string // the guard
	guard    *exec.Cmd
	guardLog *bytes.Buffer

	guardPg, guardRedis, guardHTTP string // its addresses
}

const startBalance = 100

func setStage(ctx context.Context, p printer, program string) (s *stage, err error) {
	s = &stage{program: program, guardLog: &bytes.Buffer{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	start := time.Now()
	p.progress("starting ZooKeeper …")
	if s.zk, err = servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{Nodes: 1}); err != nil {
		return s, err
	}
	p.progress("starting Postgres …")
	if s.pg, err = servers.StartPostgres(ctx, servers.PostgresOptions{}); err != nil {
		return s, err
	}
	p.progress("starting Redis …")
	if s.redis, err = servers.StartRedis(ctx, servers.RedisOptions{}); err != nil {
		return s, err
	}
	p.progress("starting the guard …")
	if err := s.prepare(ctx); err != nil {
		return s, err
	}
	if err := s.startGuard(ctx); err != nil {
		return s, err
	}
	p.done(fmt.Sprintf("ZooKeeper, Postgres, Redis and a guard are up (%.1f s)",
		time.Since(start).Seconds()))
	return s, nil
}

// prepare creates the roles and the account.
func (s *stage) prepare(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.pg.URL("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, `create role guard login; create role app login;
	    create table account (balance int);
	    insert into account values (0);
	    grant all on account to app`).ReadAll()
	if err != nil {
		return err
	}
	return s.reset(ctx)
}

// reset sets the balance to its start value.
func (s *stage) reset(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.pg.URL("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "update account set balance = $1", startBalance); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	defer rdb.Close()
	return rdb.Set(ctx, "balance", startBalance, 0).Err()
}

// balances reads the present balances.
func (s *stage) balances(ctx context.Context) (pg, rd int, err error) {
	conn, err := pgx.Connect(ctx, s.pg.URL("postgres", "postgres"))
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "select balance from account").Scan(&pg); err != nil {
		return 0, 0, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.redis.Addr()})
	defer rdb.Close()
	rd, err = rdb.Get(ctx, "balance").Int()
	return pg, rd, err
}

// environment is the configuration of the guard.
func (s *stage) environment() []string {
	return []string{
		"GUARD_POSTGRES_LISTEN=" + s.guardPg,
		"GUARD_POSTGRES_UPSTREAM=" + s.pg.URL("guard", "postgres"),
		"GUARD_POSTGRES_ADMIN=" + s.pg.URL("postgres", "postgres"),
		"GUARD_REDIS_LISTEN=" + s.guardRedis,
		"GUARD_REDIS_UPSTREAM=" + s.redis.URL(),
		"GUARD_COORDINATOR=zk://" + s.zk.Addr() + "/demo",
		"GUARD_HTTP_LISTEN=" + s.guardHTTP,
	}
}

func (s *stage) startGuard(ctx context.Context) error {
	at, err := servers.FreeAddresses(3)
	if err != nil {
		return err
	}
	s.guardPg, s.guardRedis, s.guardHTTP = at[0], at[1], at[2]
	if _, err := s.run(ctx, "install"); err != nil {
		return err
	}
	s.guard = exec.Command(s.program, "serve")
	s.guard.Env = s.environment()
	s.guard.Stderr = s.guardLog
	if err := s.guard.Start(); err != nil {
		return err
	}
	return s.awaitReady(ctx)
}

// run runs a subcommand of the guard and returns what it prints.
func (s *stage) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Env = s.environment()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("guard %s: %s", strings.Join(args, " "), exit.Stderr)
	}
	return string(out), err
}

func (s *stage) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.guardHTTP+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the guard did not become ready: %s", s.guardLog)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *stage) showStatus(ctx context.Context, p printer) error {
	out, err := s.run(ctx, "status")
	if err != nil {
		return err
	}
	p.console("guard status", out)
	return nil
}

func (s *stage) close() {
	if s.guard != nil && s.guard.Process != nil {
		_ = s.guard.Process.Signal(syscall.SIGTERM)
		_ = s.guard.Wait()
	}
	for _, server := range []interface{ Close() error }{s.zk, s.redis, s.pg} {
		if !isNil(server) {
			if err := server.Close(); err != nil {
				fmt.Fprintln(os.Stderr, "demo:", err)
			}
		}
	}
}

// isNil reports whether a server was never started.
func isNil(server interface{ Close() error }) bool {
	switch s := server.(type) {
	case *servers.ZooKeeper:
		return s == nil
	case *servers.Postgres:
		return s == nil
	case *servers.Redis:
		return s == nil
	}
	return server == nil
}
