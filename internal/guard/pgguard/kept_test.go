package pgguard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// raises is a raiser that keeps its connection, and the logins that it has made.
type raises struct {
	pgmarks.Raiser
	t  *testing.T
	pg *servers.Postgres
}

// kept returns a raiser at a URL, which logs in as guard_role.
func kept(t *testing.T, pg *servers.Postgres, url string) *raises {
	t.Helper()
	k := &marks.StoreCache{}
	t.Cleanup(k.Close)
	return &raises{pgmarks.Raiser{URL: url, Kept: k}, t, pg}
}

// countsLogins starts a server that nobody else uses, and that logs each login.
func countsLogins(t *testing.T) *servers.Postgres {
	t.Helper()
	pg := serverstest.Postgres(t,
		servers.PostgresOptions{Settings: map[string]string{"log_connections": "on"}})
	prepared(t, pg, "postgres")
	return pg
}

func order(token fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified, Holder: "host"}
}

// logins returns how often guard_role has logged in.
func (r *raises) logins() int {
	return strings.Count(r.pg.LogTail(100_000), "connection authorized: user=guard_role")
}

func (r *raises) raised(token fence.Token) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.Raise(ctx, order(token)); err != nil {
		r.t.Fatalf("raise to %d: %v", token, err)
	}
	var mark fence.Token
	c, err := pgx.Connect(ctx, r.pg.URL("postgres", "postgres"))
	must.Succeed(r.t, err)
	defer c.Close(ctx)
	err = c.QueryRow(ctx, "select token from ringfence.marks(array['orders'])").Scan(&mark)
	if err != nil || mark != token {
		r.t.Errorf("the mark is %d, want %d: %v", mark, token, err)
	}
}

// The first raise looks for a guard with one session, and raises with another.
func TestManyDirectRaisesLogInTwice(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[encrypted], func(t *testing.T) {
			var r *raises
			if encrypted {
				e := encryptedPostgres(t)
				r = kept(t, e.pg, e.control("sslmode=verify-full")+"&sslrootcert="+e.authority.File)
			} else {
				pg := countsLogins(t)
				r = kept(t, pg, pg.URL("guard_role", "postgres"))
			}
			r.raised(1)
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					c := order(7)
					c.Resource = fence.Resource(fmt.Sprint("job", i))
					must.Report(t, r.Raise(t.Context(), c))
				})
			}
			all.Wait()
			for token := range fence.Token(8) {
				r.raised(2 + token)
			}
			if n := r.logins(); n != 2 {
				t.Errorf("17 raises have logged in %d times", n)
			}
		})
	}
}

func TestADirectRaiseAfterARestartRaisesOnTheNewRun(t *testing.T) {
	t.Parallel()
	pg := countsLogins(t)
	r := kept(t, pg, pg.URL("guard_role", "postgres"))
	r.raised(5)
	for _, token := range []fence.Token{5, 6} { // confirms the mark of the earlier run; raises it
		must.Succeed(t, pg.Kill())
		if err := r.Raise(t.Context(), order(token)); err == nil {
			t.Error("a raise has succeeded without a server")
		}
		must.Succeed(t, pg.Start(t.Context()))
		r.raised(token)
	}
	if err := r.Raise(t.Context(), order(5)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token: %v", err)
	}
}

// The address leads to a guard after the first raise.
func TestARaiserUsesAGuardThatIsPutInFront(t *testing.T) {
	t.Parallel()
	pg := countsLogins(t)
	g := guardBefore(t, pg, "postgres", setup{})
	relay := serverstest.NewRelay(t, pg.Addr())
	r := kept(t, pg, "postgres://guard_role@"+relay.Addr()+"/postgres?sslmode=disable")
	r.raised(5)
	relay.To(g.Addr)
	for token := fence.Token(6); token < 9; token++ {
		r.raised(token)
		if n := g.Metric("ringfence_admissions_total", "admitted"); int(n) != int(token)-5 {
			t.Errorf("after the raise to %d the guard has admitted %g sessions", token, n)
		}
	}
}

// One backend is stopped; the server goes on.
func TestAKeptConnectionThatDoesNotAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	pg := countsLogins(t)
	r := kept(t, pg, pg.URL("guard_role", "postgres"))
	r.raised(5)
	c := pgtest.Connect(t, pg.URL("postgres", "postgres"))
	var pid int
	err := c.QueryRow(t.Context(),
		"select pid from pg_stat_activity where usename = 'guard_role'").Scan(&pid)
	must.Succeed(t, err)
	must.Succeed(t, syscall.Kill(pid, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
	// to close the connection takes longer
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must.Succeed(t, r.Raise(ctx, order(6)))
	r.raised(7)
	if n := r.logins(); n != 4 {
		t.Errorf("guard_role has logged in %d times", n)
	}
}
