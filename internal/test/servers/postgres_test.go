package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/test/must"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(limited(t), url)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func query[T any](t *testing.T, c *pgx.Conn, sql string) (v T) {
	t.Helper()
	must.Succeed(t, c.QueryRow(limited(t), sql).Scan(&v))
	return v
}

// TestPostgresLife tests everything on one server, because creating a cluster takes almost a
// second.
func TestPostgresLife(t *testing.T) {
	p, err := StartPostgres(limited(t), PostgresOptions{
		Settings: map[string]string{"application_name": "it's set"},
	})
	must.Succeed(t, err)
	closed(t, p)
	url := p.URL("postgres", "postgres")

	t.Run("options and defaults apply", func(t *testing.T) {
		c := connect(t, url)
		for name, want := range map[string]string{
			"application_name": "it's set", "fsync": "on", "shared_buffers": "32MB",
		} {
			if got := query[string](t, c, "select current_setting('"+name+"')"); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
	t.Run("the unix socket works", func(t *testing.T) {
		port := strings.Split(p.Addr(), ":")[1]
		connect(t, "postgres:///postgres?user=postgres&host="+p.SocketDir()+"&port="+port)
	})
	t.Run("starting twice is refused", func(t *testing.T) {
		if err := p.Start(limited(t)); !errors.Is(err, ErrRunning) {
			t.Fatal(err)
		}
	})
	t.Run("kill ends backends and keeps committed rows", func(t *testing.T) { killKeepsRows(t, p) })
	t.Run("a stopped server keeps rows too", func(t *testing.T) {
		must.Succeed(t, p.Stop())
		if !strings.Contains(p.LogTail(5), "database system is shut down") {
			t.Error("the stop was not orderly")
		}
		must.Succeed(t, p.Start(limited(t)))
		query[int](t, connect(t, url), "select 1 from kept")
	})
	t.Run("pause holds every backend until resume", func(t *testing.T) { pauseHolds(t, p) })
	t.Run("close works while paused, and leaves nothing", func(t *testing.T) {
		family := p.live().family()
		must.Succeed(t, p.Pause())
		must.Succeed(t, p.Close())
		if !allGone(family) || !gone(p.Dir()) {
			t.Error("something is left")
		}
		if p.LogTail(1) == "" {
			t.Error("the log's end is lost")
		}
		if err := p.Start(limited(t)); !errors.Is(err, ErrClosed) {
			t.Error("Start after Close:", err)
		}
	})
}

func killKeepsRows(t *testing.T, p *Postgres) {
	url := p.URL("postgres", "postgres")
	c := connect(t, url)
	_, err := c.Exec(limited(t), "create table kept as select 1")
	must.Succeed(t, err)
	family := p.live().family()
	if len(family) < 2 {
		t.Fatal("no backend in the family")
	}
	must.Succeed(t, p.Kill())
	if !allGone(family) {
		t.Error("a process is left")
	}
	must.Succeed(t, p.Kill()) // nothing to do
	if err := p.Pause(); !errors.Is(err, ErrNotRunning) {
		t.Error("Pause of a killed server:", err)
	}
	must.Succeed(t, p.Start(limited(t)))
	query[int](t, connect(t, url), "select 1 from kept")
}

func pauseHolds(t *testing.T, p *Postgres) {
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	c := connect(t, p.URL("postgres", "postgres"))
	must.Succeed(t, p.Pause())
	must.Succeed(t, p.Pause()) // again: no change
	family := p.live().family()
	for _, m := range family {
		if !m.stopped() {
			t.Error("not stopped:", m)
		}
	}
	answered := make(chan error, 1)
	go func() { answered <- c.Ping(ctx) }()
	short, end := context.WithTimeout(ctx, 100*time.Millisecond)
	defer end()
	if _, err := pgx.Connect(short, p.URL("postgres", "postgres")); err == nil {
		t.Error("a paused server let somebody in")
	}
	select {
	case err := <-answered:
		t.Error("a paused server answered:", err)
		answered <- err
	default:
	}
	must.Succeed(t, p.Resume())
	must.Succeed(t, p.Resume()) // again: no change
	must.Succeed(t, <-answered)
}

func TestBadSettingFailsWithTheLog(t *testing.T) {
	_, err := StartPostgres(limited(t), PostgresOptions{
		Settings: map[string]string{"work_mem": "much"},
	})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "work_mem"`) {
		t.Error(err)
	}
	if !errors.Is(err, errExited) {
		t.Error("not errExited")
	}
}

func TestTheCallerSetsTheHBA(t *testing.T) {
	p, err := StartPostgres(limited(t), PostgresOptions{HBA: "host all all 127.0.0.1/32 reject\n"})
	must.Succeed(t, err)
	closed(t, p)
	_, err = pgx.Connect(limited(t), p.URL("postgres", "postgres"))
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "28000" {
		t.Error(err)
	}
}

func TestPgBouncerPools(t *testing.T) {
	p, err := StartPostgres(limited(t), PostgresOptions{})
	must.Succeed(t, err)
	closed(t, p)
	b, err := StartPgBouncer(limited(t), p, PgBouncerOptions{})
	must.Succeed(t, err)
	closed(t, b)
	url := b.URL("anybody", "postgres")
	got := query[string](t, connect(t, url+"&options=-c%20fence.orders%3D1"), "select current_user")
	if got != "postgres" {
		t.Error("user", got)
	}
	must.Succeed(t, b.Stop()) // at once, although the client above is still connected
	must.Succeed(t, b.Start(limited(t)))
	connect(t, url)
}
