package pgguard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestABackendThatDoesNotEndKeepsTheNewLeaderOutUntilItEnds(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	hasty := g.another(setup{Options: Options{
		Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 3 * time.Second},
	}})
	old := g.open(5)
	pid := int(old.PgConn().PID())
	_, result := g.held(old) // a guard ends a session at rest without its backend
	resume := stopProcess(t, pid)

	for range 2 {
		_, err := hasty.dial(7)
		wantCode(t, err, "RF006")
		var pg *pgconn.PgError
		if errors.As(err, &pg) && (!strings.Contains(pg.Detail, fmt.Sprint(pid)) || pg.Hint == "") {
			t.Errorf("the refusal does not name backend %d and what to do: %q, %q",
				pid, pg.Detail, pg.Hint)
		}
	}
	if n := g.markOf("orders"); n != 7 {
		t.Errorf("the mark is %d, want it raised to 7", n)
	}
	_, err := g.dial(5)
	wantCode(t, err, "RF001")

	resume()
	g.exec(g.open(7), "insert into ledger (token) values (7)")
	wantCode(t, <-result, "RF001")
}

// stopProcess pauses a backend, as a scheduler might; resume lets it run again.
func stopProcess(t *testing.T, pid int) (resume func()) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Skipf("cannot stop a backend: %v", err)
	}
	resume = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(resume)
	return resume
}

func TestAKilledServerComesBackWithItsMarkAndTheGuardNeedsNoRestart(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	g := guardBefore(t, pg, prepared(t, pg, "postgres"), setup{})
	for range 8 { // some control connections in the pool, and sessions in the registry
		g.open(3)
	}
	g.open(7)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				err := g.work(ctx, 7)
				mu.Lock()
				seen[kindOf(err)]++
				mu.Unlock()
			}
		})
	}
	g.until("select least(count(*), 10) from ledger", 10)
	must.Succeed(t, pg.Kill())
	_, err := g.dial(7)
	wantCode(t, err, "57P03")
	must.Succeed(t, pg.Start(t.Context()))
	if !poll.Until(30*time.Second, func() bool { _, err = g.dial(7); return err == nil }) {
		t.Fatalf("the guard did not recover: %v", err)
	}
	stop()
	all.Wait()
	t.Logf("the clients got: %v", seen)
	for kind := range seen {
		if !strings.Contains("ok gone 57P01 57P02 57P03", kind) {
			t.Errorf("%d clients got %s", seen[kind], kind)
		}
	}
	_, err = g.dial(5)
	wantCode(t, err, "RF001")
	_, err = g.another(setup{}).dial(5) // a guard that remembers nothing
	wantCode(t, err, "RF001")
}

// work opens a session and writes until ctx ends or the session does.
func (g *guarded) work(ctx context.Context, token fence.Token) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	c, err := pgx.Connect(bounded, g.url("app", token))
	if err != nil {
		return err
	}
	defer c.Close(bounded)
	for ctx.Err() == nil && err == nil {
		_, err = c.Exec(bounded, "insert into ledger (token) values ($1)", int64(token))
	}
	return err
}

// kindOf returns the SQLSTATE of an error, or a word for an error that has none.
func kindOf(err error) string {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &pg):
		return pg.Code
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	}
	return "gone"
}

func TestAfterAFailoverOnlyTheCurrentLeaderGetsIn(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	database := prepared(t, pg, "postgres")
	// so that guards with and without a coordinator have the same issuer
	observer := &coordinator{issuer: "unverified"}
	observer.elects("orders", 7)
	before := guardBefore(t, pg, database, setup{})
	before.open(7)
	before.Stop()
	promote(t, pg)

	forgetful := guardBefore(t, pg, database, setup{})
	_, err := forgetful.dial(7)
	wantCode(t, err, "RF013")
	_, err = forgetful.dial(8)
	wantCode(t, err, "RF013")

	g := guardBefore(t, pg, database, setup{
		Options: Options{Admission: &marks.Admission{Authority: marks.Elected{Observer: observer}}},
	})
	_, err = g.dial(6)
	wantCode(t, err, "RF001")
	_, err = g.dial(8)
	wantCode(t, err, "RF007")
	observer.elects("orders", 9) // 7 was deposed, and a raise to 9 may have been lost
	_, err = g.dial(7)
	wantCode(t, err, "RF007")
	observer.elects("orders", 7)
	g.exec(g.open(7), "insert into ledger (token) values (7)")
	forgetful.open(7) // the other guard has confirmed the mark
}

// promote restarts a server on another timeline, as a failover does.
func promote(t *testing.T, pg *servers.Postgres) {
	t.Helper()
	standBy(t, pg)
	pgtest.Exec(t, pg.URL("postgres", "postgres"), "select pg_promote(true, 30)")
}

// standBy restarts a server as a standby.
func standBy(t *testing.T, pg *servers.Postgres) {
	t.Helper()
	must.Succeed(t, pg.Stop())
	signal := filepath.Join(pg.Dir(), "data", "standby.signal")
	must.Succeed(t, os.WriteFile(signal, nil, 0o666))
	must.Succeed(t, os.Chmod(signal, 0o666))
	must.Succeed(t, pg.Start(t.Context()))
}
