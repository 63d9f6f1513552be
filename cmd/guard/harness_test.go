package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// invoke runs a subcommand to its end and returns what it printed.
func invoke(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	code = run(ctx, args, env, &out, &errs)
	return code, out.String(), errs.String()
}

// running is a guard that runs in this process.
type running struct {
	t      *testing.T
	env    []string
	pg     string // its address for Postgres clients
	page   string
	stop   context.CancelFunc
	exited chan int
	log    *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func serving(t *testing.T, env ...string) *running {
	t.Helper()
	return servingAt(t, serverstest.FreeAddresses(t, 1)[0], env...)
}

func servingAt(t *testing.T, address string, env ...string) *running {
	t.Helper()
	r := &running{
		t: t, pg: address, page: serverstest.FreeAddresses(t, 1)[0], exited: make(chan int, 1),
		log: &syncBuffer{},
	}
	r.env = append(env, "GUARD_POSTGRES_LISTEN="+r.pg, "GUARD_HTTP_LISTEN="+r.page,
		"GUARD_DRAIN_TIMEOUT=5s")
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.exited <- run(ctx, []string{"serve"}, r.env, io.Discard, r.log) }()
	t.Cleanup(func() {
		stop()
		<-r.exited
		if t.Failed() {
			t.Log(r.log)
		}
	})
	return r
}

// ready waits until /readyz answers status.
func (r *running) ready(status int) (body string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), 30*time.Second)
	defer cancel()
	if !poll.Until(30*time.Second, func() bool {
		code, text := r.get(ctx, "/readyz")
		body = text
		return code == status
	}) {
		r.t.Fatalf("/readyz did not become %d: %s\n%s", status, body, r.log)
	}
	return body
}

func (r *running) get(ctx context.Context, path string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.page+path, nil)
	must.Succeed(r.t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

func (r *running) connect(token int) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx,
		fmt.Sprintf("postgres://app@%s/postgres?options=-c%%20fence.orders%%3D%d", r.pg, token))
	if err == nil {
		r.t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return c, err
}

// fresh starts a Postgres server with the guard's role, and returns settings that point at it.
func fresh(t *testing.T) (*servers.Postgres, []string) {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	pgtest.Exec(t, pg.URL("postgres", "postgres"), "create role guard login; create role app login")
	return pg, []string{
		"GUARD_POSTGRES_UPSTREAM=" + pg.URL("guard", "postgres"),
		"GUARD_POSTGRES_ADMIN=" + pg.URL("postgres", "postgres"),
	}
}

// coordinated installs, starts a ZooKeeper and a guard that asks it, and waits until the guard is
// ready.
func coordinated(t *testing.T, env []string) (*running, *servers.ZooKeeper) {
	t.Helper()
	invoke(t, env, "install")
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	r := serving(t, append(env, "GUARD_COORDINATOR=zk://"+zk.Addr())...)
	r.ready(http.StatusOK)
	return r, zk
}

// elected returns the term of a leader that lives as long as the test.
func elected(t *testing.T, zk *servers.ZooKeeper) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	co, err := zookeeper.Open(ctx, "zk://"+zk.Addr(), zookeeper.Options{
		SessionTimeout: 30 * time.Second,
	})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = co.Close() })
	term, err := co.Campaign(ctx, "orders", "a")
	must.Succeed(t, err)
	return term
}

func resign(t *testing.T, term *fence.Term) {
	t.Helper()
	must.Succeed(t, term.Resign(t.Context()))
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != want {
		t.Errorf("got %v, want SQLSTATE %s", err, want)
	}
}
