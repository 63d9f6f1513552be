package pgguard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/store/pgstore"
)

// nowhere is the coordinator of a term; it does nothing.
type nowhere struct{}

func (nowhere) Acknowledge(context.Context) error { return nil }
func (nowhere) Release(context.Context) error     { return nil }

// won returns a term that was just won, and its keeper.
func won(t *testing.T, token fence.Token, timeout time.Duration) (*fence.Term, *elector.Keeper) {
	t.Helper()
	c := fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified, Holder: "host"}
	term, keeper := elector.NewTerm(c, time.Now(), timeout, nowhere{})
	t.Cleanup(func() { _ = term.Resign(context.Background()) })
	return term, keeper
}

// pool opens a pool of a term; change may change its configuration first.
func (g *guarded) pool(term *fence.Term, change func(*pgxpool.Config)) *pgxpool.Pool {
	g.t.Helper()
	cfg, err := pgxpool.ParseConfig(g.plain("app") + "?application_name=pooled")
	must.Succeed(g.t, err)
	if change != nil {
		change(cfg)
	}
	p, err := pgstore.NewPool(g.t.Context(), term, cfg)
	must.Succeed(g.t, err)
	g.t.Cleanup(p.Close)
	return p
}

const insertFive = "insert into ledger (token) values (5)"

// fill makes a pool open n connections.
func (g *guarded) fill(p *pgxpool.Pool, n int) {
	g.t.Helper()
	var held []*pgxpool.Conn
	for range n {
		c, err := p.Acquire(g.t.Context())
		must.Succeed(g.t, err)
		held = append(held, c)
	}
	for _, c := range held {
		c.Release()
	}
}

const pooledSessions = "select count(*) from pg_stat_activity " +
	"where application_name = 'pooled' and datname = current_database()"

func TestAPoolsConnectionsCarryTheTokenAndARefusalEndsItsTerm(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	refusals := 0
	g := fencedBy(t, setup{notify: func(e marks.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == marks.Refused {
			refusals++
		}
	}})
	term, keeper := won(t, 5, time.Minute)
	keeper.Suspend() // an unreachable coordinator must not stop the work, because the store fences
	p := g.pool(term, nil)
	g.fill(p, 3)
	if n := g.count("select count(*) from ringfence_private.session where token = 5"); n != 3 {
		t.Errorf("%d sessions are registered, want 3", n)
	}
	if _, err := p.Exec(t.Context(), insertFive); err != nil {
		t.Error(err)
	}
	g.open(7)
	var err error
	for n := 0; term.State() != fence.Lost; n++ {
		if _, err = p.Exec(t.Context(), insertFive); err == nil || n > 10 {
			t.Fatalf("the term is not lost after %d statements of a deposed leader: %v", n, err)
		}
	}
	if cause := context.Cause(term.Context()); !errors.Is(cause, fence.ErrSuperseded) ||
		!errors.Is(cause, fence.ErrStale) {
		t.Errorf("the term is lost because of %v", cause)
	}
	var r *fence.Refusal
	if !errors.As(context.Cause(term.Context()), &r) || r.Claim != term.Claim() || r.Mark != 7 {
		t.Errorf("the refusal is of %v at the mark %s", r.Claim, r.Mark)
	}
	mu.Lock()
	before := refusals
	mu.Unlock()
	for range 5 {
		if _, err := p.Exec(t.Context(), insertFive); !errors.Is(err, fence.ErrSuperseded) {
			t.Errorf("got %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if refusals != before {
		t.Error("the pool has opened more connections")
	}
	if n := g.count("select count(*) from ledger"); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

func TestAPoolClosesItsConnectionsWhenTheTermIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*elector.Keeper){
		"expired": nil, "deposed": func(k *elector.Keeper) { k.Lose(fence.ErrDeposed) },
	} {
		t.Run(name, func(t *testing.T) {
			g := fenced(t)
			timeout, cause := time.Minute, fence.ErrDeposed
			if lose == nil {
				timeout, cause = 5*time.Second, fence.ErrExpired
			}
			term, keeper := won(t, 5, timeout)
			p := g.pool(term, nil)
			g.fill(p, 2)
			keeper.Confirm(time.Now()) // or the term might expire before the statement runs
			failed := make(chan error, 1)
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			defer cancel()
			go func() {
				_, err := p.Exec(ctx, "select pg_sleep(600)")
				failed <- err
			}()
			g.until("select count(*) from pg_stat_activity "+
				"where query like '%pg_sleep(600)' and datname = current_database()", 1)
			if lose != nil {
				lose(keeper)
			}
			select {
			case err := <-failed:
				if err == nil {
					t.Error("the statement succeeded")
				}
			case <-time.After(30 * time.Second):
				t.Error("the statement still runs after the end of the term")
				cancel()
			}
			if _, err := p.Exec(t.Context(), insertFive); !errors.Is(err, cause) {
				t.Errorf("got %v, want %v", err, cause)
			}
			g.until(pooledSessions, 0)
		})
	}
}

// A connection that is being opened when the term is lost must not be used afterwards.
func TestAPoolHandsOutNoConnectionThatWasOpenedWhileTheTermWasLost(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	term, keeper := won(t, 5, time.Minute)
	p := g.pool(term, func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			keeper.Lose(fence.ErrDeposed)
			return nil
		}
	})
	if _, err := p.Exec(t.Context(), insertFive); !errors.Is(err, fence.ErrDeposed) {
		t.Errorf("got %v", err)
	}
	g.until(pooledSessions, 0)
}

// A transaction may be stale under a claim of its own, which need not be the term's.
func TestARefusalOfAnotherClaimDoesNotSupersedeATerm(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	term, _ := won(t, 5, time.Minute)
	p := g.pool(term, nil)
	g.fill(p, 1)
	older := term.Claim()
	older.Token = 4
	stock := fence.Claim{Resource: "stock", Token: 1, Issuer: elector.Unverified, Holder: "host"}
	g.exec(g.open(5), "select") // orders is at 5
	if c, err := g.dialURL(g.withOptions("app", "-c fence.stock=2")); err != nil {
		t.Fatal(err)
	} else {
		g.exec(c, "select")
	}
	for _, c := range []fence.Claim{older, stock} {
		_, err := pgmarks.Begin(t.Context(), p, c, pgx.TxOptions{})
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: got %v", c, err)
		}
	}
	both := g.pool(term, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["options"] = "-c fence.stock=1"
	})
	_, err := both.Exec(t.Context(), "select")
	wantCode(t, err, "RF001")
	if term.State() != fence.Active {
		t.Errorf("the term is lost: %v", context.Cause(term.Context()))
	}
	if _, err := p.Exec(t.Context(), insertFive); err != nil {
		t.Error(err)
	}
}

func TestAPoolKeepsTheHooksOfItsConfiguration(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	term, _ := won(t, 5, time.Minute)
	var mu sync.Mutex
	var called []string
	call := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		called = append(called, name)
	}
	fail := errors.New("not now")
	p := g.pool(term, func(cfg *pgxpool.Config) {
		cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			call("BeforeConnect")
			return nil
		}
		cfg.AfterConnect = func(context.Context, *pgx.Conn) error {
			call("AfterConnect")
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(called, "BeforeClose") && !slices.Contains(called, "failed") {
				called = append(called, "failed")
				return fail
			}
			return nil
		}
		cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			call("PrepareConn")
			return true, nil
		}
		cfg.BeforeClose = func(*pgx.Conn) { call("BeforeClose") }
		cfg.ConnConfig.OnPgError = func(*pgconn.PgConn, *pgconn.PgError) bool {
			call("OnPgError")
			return true
		}
		cfg.ConnConfig.RuntimeParams["options"] = "-c statement_timeout=12345"
	})
	if _, err := p.Exec(t.Context(), "select"); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	var timeout string
	if err := p.QueryRow(t.Context(), "show statement_timeout").Scan(&timeout); err != nil ||
		timeout != "12345ms" {
		t.Errorf("the options of its configuration are gone: %s, %v", timeout, err)
	}
	_, err := p.Exec(t.Context(), "select 1/0")
	wantCode(t, err, "22012")
	p.Close()
	want := []string{"BeforeConnect", "AfterConnect", "failed", "BeforeConnect", "AfterConnect",
		"PrepareConn", "PrepareConn", "OnPgError", "BeforeClose"}
	if !slices.Equal(called, want) {
		t.Errorf("called %q\nwant %q", called, want)
	}
}

// pgxpool calls BeforeAcquire only where there is no PrepareConn, and a pool of a term always has
// one.
func TestAPoolKeepsTheOlderHookBeforeAcquire(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	term, _ := won(t, 5, time.Minute)
	calls := 0
	p := g.pool(term, func(cfg *pgxpool.Config) {
		//lint:ignore SA1019 the test is about the deprecated hook
		cfg.BeforeAcquire = func(context.Context, *pgx.Conn) bool { calls++; return calls > 1 }
	})
	if _, err := p.Exec(t.Context(), "select"); err != nil || calls != 2 {
		t.Errorf("BeforeAcquire was called %d times, want 2: %v", calls, err)
	}
}
