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
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestADeposedLeaderIsCutOffBeforeTheNewOneConnects(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	r, zk := coordinated(t, env)
	first := elected(t, zk)
	idle, err := r.connect(int(first.Token()))
	must.Succeed(t, err)
	open, err := r.connect(int(first.Token()))
	must.Succeed(t, err)
	_, err = open.Exec(t.Context(), "begin; create temporary table t (n int)")
	must.Succeed(t, err)
	resign(t, first)
	elected(t, zk) // and does not connect
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = idle.WaitForNotification(ctx)
	wantCode(t, err, "RF001")
	_, err = open.WaitForNotification(ctx)
	wantCode(t, err, "RF001")
}

// The guard raises the mark in all databases that it serves. One of them is out of order, and keeps
// none of the others waiting.
func TestADeposedLeaderIsCutOffInEveryDatabase(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "shop", "crm", "broken")
	if code, _, errs := invoke(t, env, "install", "--databases",
		"postgres,shop,crm,broken"); code != 0 {
		t.Fatal(errs)
	}
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	r := serving(t, append(env, "GUARD_COORDINATOR=zk://"+zk.Addr())...)
	r.ready(http.StatusOK)
	first := elected(t, zk)
	open := map[string]*pgx.Conn{}
	for _, database := range []string{"broken", "postgres", "shop", "crm"} {
		c, err := dial(t, r.pg, database, int(first.Token()))
		must.Succeed(t, err)
		open[database] = c
	}
	execute(t, pg.URL("postgres", "broken"), "drop schema ringfence, ringfence_private cascade")
	code, out, _ := invoke(t, env, "status")
	if code != cli.Error || !strings.Contains(out, `not ready: ringfence is not installed`) {
		t.Errorf("the status of a database that has lost its schema: exit %d, %s", code, out)
	}
	resign(t, first)
	elected(t, zk) // and does not connect
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, database := range []string{"postgres", "shop", "crm"} {
		_, err := open[database].WaitForNotification(ctx)
		wantCode(t, err, "RF001")
	}
}

func TestASettingKeepsALeaderServedWhileTheCoordinatorIsDown(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	env = append(env, "GUARD_COORDINATOR=zk://"+zk.Addr(), "GUARD_ADMIT_TIMEOUT=3s")
	refuses := serving(t, env...)
	keeps := serving(t, append(env, "GUARD_COORDINATOR_OUTAGE=keep")...)
	started := serving(t, append(env, "GUARD_COORDINATOR_OUTAGE=keep")...) // and has verified nobody
	token := int(elected(t, zk).Token())
	for _, r := range []*running{refuses, keeps} {
		r.ready(http.StatusOK)
		_, err := r.connect(token)
		must.Succeed(t, err)
	}
	started.ready(http.StatusOK)
	must.Succeed(t, zk.Kill())
	if _, err := keeps.connect(token); err != nil {
		t.Error(err)
	}
	if log := keeps.log.String(); !strings.Contains(log, "does not answer") {
		t.Errorf("the outage is not in the log: %s", log)
	}
	for name, r := range map[string]*running{"refuse": refuses, "keep, after a restart": started} {
		_, err := r.connect(token)
		if wantCode(t, err, "RF011"); t.Failed() {
			t.Fatal(name)
		}
	}
	_, err := keeps.connect(token + 1)
	wantCode(t, err, "RF011")
}
