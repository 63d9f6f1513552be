package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A peer that is gone without a word would be found after minutes, or never.
var impatient = []string{"GUARD_TCP_KEEPALIVE=3s", "GUARD_TCP_USER_TIMEOUT=3s"}

// foundWithin is far less than the system needs by itself.
const foundWithin = time.Minute

func onEachRelay(t *testing.T, test func(t *testing.T, env []string)) {
	for _, relay := range []string{"loops", "goroutines"} {
		t.Run(relay, func(t *testing.T) {
			test(t, append([]string{"GUARD_RELAY=" + relay}, impatient...))
		})
	}
}

func TestAClientThatIsGoneWithoutAWordReleasesItsSession(t *testing.T) {
	t.Parallel()
	onEachRelay(t, func(t *testing.T, settings []string) {
		far := serverstest.NewFarAway(t)
		pg, env := fresh(t)
		invoke(t, env, "install")
		_, port, _ := net.SplitHostPort(serverstest.FreeAddresses(t, 1)[0])
		r := servingAt(t, net.JoinHostPort(far.Host, port), append(env, settings...)...)
		r.ready(http.StatusOK)
		idle, waiting := r.from(far), r.from(far)
		asked := make(chan error, 1)
		go func() { // the answer comes when the client is gone
			_, err := waiting.Exec(t.Context(), "select pg_sleep(2)")
			asked <- err
		}()
		direct, err := pgx.Connect(t.Context(), pg.URL("postgres", "postgres"))
		must.Succeed(t, err)
		defer direct.Close(context.Background())
		await(t, direct, "select count(*) = 1 from pg_stat_activity where query like '%pg_sleep(2)' "+
			"and state = 'active'")
		far.Vanish()
		await(t, direct, "select count(*) = 0 from ringfence_private.session")
		await(t, direct, "select count(*) = 0 from pg_stat_activity where usename = 'app'")
		_ = idle.PgConn().Conn().Close()
		_ = waiting.PgConn().Conn().Close()
		<-asked
	})
}

func TestADatabaseThatIsGoneWithoutAWordEndsItsSessions(t *testing.T) {
	t.Parallel()
	onEachRelay(t, func(t *testing.T, settings []string) {
		far := serverstest.NewFarAway(t)
		pg, env := fresh(t)
		invoke(t, env, "install")
		for i, setting := range env {
			env[i] = strings.ReplaceAll(setting, pg.Addr(), far.Forward(pg.Addr()))
		}
		r := serving(t, append(env, settings...)...)
		r.ready(http.StatusOK)
		var all []*pgx.Conn
		for range 2 {
			c, err := r.connect(5)
			must.Succeed(t, err)
			all = append(all, c)
		}
		far.Vanish()
		ctx, cancel := context.WithTimeout(t.Context(), foundWithin)
		defer cancel()
		_, err := all[0].Exec(ctx, "select 1") // never gets there
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a query: %v", err)
		}
		again, cancel := context.WithTimeout(t.Context(), foundWithin)
		defer cancel()
		if _, err := all[1].WaitForNotification(again); err == nil || again.Err() != nil {
			t.Errorf("an idle session: %v", err)
		}
	})
}

// from opens a session from a host that can vanish.
func (r *running) from(far *serverstest.FarAway) *pgx.Conn {
	r.t.Helper()
	o, err := pgx.ParseConfig("postgres://app@" + r.pg +
		"/postgres?sslmode=disable&options=-c%20fence.orders%3D5")
	must.Succeed(r.t, err)
	o.DialFunc = far.Dial
	c, err := pgx.ConnectConfig(r.t.Context(), o)
	must.Succeed(r.t, err)
	return c
}

// await waits until a query returns true.
func await(t *testing.T, c *pgx.Conn, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), foundWithin)
	defer cancel()
	for {
		var yes bool
		if err := c.QueryRow(ctx, query).Scan(&yes); err != nil {
			t.Fatalf("%s is not true: %v", query, err)
		}
		if yes {
			return
		}
	}
}
