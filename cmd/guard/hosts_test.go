package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// bothHosts is a primary with a standby, and settings whose URLs name both, the standby first.
func bothHosts(t *testing.T) (primary, standby *servers.Postgres, env []string) {
	t.Helper()
	primary, env = fresh(t)
	invoke(t, env, "install")
	standby, err := primary.StartStandby(t.Context(), "standby")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	lead(env, primary.Addr(), standby.Addr()+","+primary.Addr())
	return primary, standby, env
}

// lead has the URLs of settings lead to another address.
func lead(env []string, from, to string) {
	for i := range env {
		env[i] = strings.Replace(env[i], from, to, 1)
	}
}

// admits waits until the guard admits a token, and returns the session.
func (r *running) admits(t *testing.T, token int) (c *pgx.Conn) {
	t.Helper()
	var err error
	poll.Until(time.Minute, func() bool { c, err = r.connect(token); return err == nil })
	must.Succeed(t, err)
	return c
}

// keptFor reports whether a connection of the guard to a server is kept, and not made again and
// again.
const keptFor = `select coalesce(max(now() - backend_start) > interval '2 s', false)
	from pg_stat_activity where application_name = 'ringfence'`

func TestAGuardFindsThePrimaryAndFollowsAPromotion(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*servers.Postgres) error{
		"the primary is killed":  (*servers.Postgres).Kill,
		"the primary is frozen":  (*servers.Postgres).Pause,
		"the primary is cut off": func(*servers.Postgres) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, standby, env := bothHosts(t)
			r := serving(t, env...)
			r.ready(http.StatusOK)
			before := r.admits(t, 5)
			if !poll.Until(time.Minute, func() bool {
				return pgtest.Value[bool](t, standby.URL("postgres", "postgres"), keptFor)
			}) {
				t.Fatal("the guard keeps no connection to the standby")
			}
			must.Succeed(t, lose(primary))
			pgtest.Exec(t, standby.URL("postgres", "postgres"), "select pg_promote()")

			// Nobody uses the session. Only the guard can end it.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := before.WaitForNotification(ctx)
			if ctx.Err() != nil {
				t.Errorf("the session at the former primary goes on: %v", err)
			}
			after := r.admits(t, 6)
			var address string
			must.Succeed(t, after.QueryRow(t.Context(),
				"select inet_server_addr() || ':' || inet_server_port()").Scan(&address))
			if !strings.HasSuffix(address, standby.Addr()[strings.LastIndex(standby.Addr(), ":"):]) {
				t.Errorf("the guard leads to %s, and %s was promoted", address, standby.Addr())
			}
			r.ready(http.StatusOK)
		})
	}
}

func TestAnInstallationGoesToThePrimaryOfSeveralHosts(t *testing.T) {
	t.Parallel()
	primary, standby, env := bothHosts(t)
	coordinator := "GUARD_COORDINATOR=" + strings.Replace(primary.URL("postgres", "postgres"),
		primary.Addr(), primary.Addr()+","+standby.Addr(), 1)
	for _, command := range []string{"install", "status"} {
		code, out, errs := invoke(t, append(env, coordinator), command)
		if code != 0 {
			t.Errorf("%s: exit %d: %s%s", command, code, out, errs)
		}
		if is := "the primary is " + primary.Addr(); command == "status" && !strings.Contains(out, is) {
			t.Errorf("status does not say %q: %s", is, out)
		}
	}
}

func TestACommandAtAServerThatIsSilentSaysSo(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	silent := serverstest.NewRelay(t, pg.Addr())
	silent.Hold()
	lead(env, pg.Addr(), silent.Addr())
	for _, command := range []string{"status", "check", "install"} {
		code, out, errs := invoke(t, env, command)
		if code == cli.Done || !strings.Contains(out+errs, "did not answer") {
			t.Errorf("%s: exit %d: %s%s", command, code, out, errs)
		}
	}
}

// Clients that have given up at a frozen primary keep their slots for logins as long as a login may
// take. The next leader would wait for that.
func TestLoginsAtAFrozenPrimaryMakeWayForThePromotedOne(t *testing.T) {
	t.Parallel()
	primary, standby, env := bothHosts(t)
	r := serving(t, append(env, "GUARD_MAX_LOGINS=2", "GUARD_LOGIN_TIMEOUT=10m")...)
	r.ready(http.StatusOK)
	r.admits(t, 5)
	must.Succeed(t, primary.Pause())
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := pgx.Connect(ctx, "postgres://app@"+r.pg+"/postgres?options=-c%20fence.orders%3D5")
		if cancel(); err == nil {
			t.Fatal("a frozen server has admitted a session")
		}
	}
	pgtest.Exec(t, standby.URL("postgres", "postgres"), "select pg_promote()")
	r.admits(t, 6)
}
