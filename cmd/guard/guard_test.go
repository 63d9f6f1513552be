package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAGuardBecomesReadyWhenItsStoreDoes(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	r := serving(t, env...)
	if body := r.ready(http.StatusServiceUnavailable); !strings.Contains(body, "guard install") {
		t.Errorf("not installed, but the page says %s", body)
	}
	_, err := r.connect(1)
	wantCode(t, err, "RF005")

	if code, out, errs := invoke(t, env, "install"); code != cli.Done ||
		out != "postgres: installed\n" {
		t.Fatalf("install: %d %s %s", code, out, errs)
	}
	r.ready(http.StatusOK)
	_, err = r.connect(1)
	must.Succeed(t, err)

	must.Succeed(t, pg.Kill())
	r.ready(http.StatusServiceUnavailable)
	_, err = r.connect(2)
	wantCode(t, err, "57P03")
	must.Succeed(t, pg.Start(t.Context()))
	r.ready(http.StatusOK)
	_, err = r.connect(2)
	must.Succeed(t, err)
	_, text := r.get(t.Context(), "/metrics")
	if !strings.Contains(text,
		`ringfence_raises_total{database="postgres",protocol="postgres",resource="orders"} 2`) {
		t.Errorf("metrics:\n%s", text)
	}
}

func TestStatusAndAdopt(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	if code, _, errs := invoke(t, env, "status"); code != cli.Error ||
		!strings.Contains(errs, "not every store") {
		t.Errorf("status before install: %d %s", code, errs)
	}
	invoke(t, env, "install")
	r := serving(t, append(env, "GUARD_ISSUER=old")...)
	r.ready(http.StatusOK)
	const token = 9007199254740993 // 2^53 + 1
	old, err := r.connect(token)
	must.Succeed(t, err)
	code, out, _ := invoke(t, env, "status", "-o", "json")
	var all []storeStatus
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != cli.Done ||
		all[0].Marks[0].Token != token || !strings.Contains(out, `"9007199254740993"`) ||
		all[0].Marks[0].Sessions != 1 {
		t.Fatalf("status: %d %v\n%s", code, err, out)
	}

	rebuilt := serving(t, append(env, "GUARD_ISSUER=new")...)
	rebuilt.ready(http.StatusOK)
	_, err = rebuilt.connect(3)
	wantCode(t, err, "RF004")
	code, out, errs := invoke(t, append(env, "GUARD_ISSUER=new"), "adopt", "orders")
	if code != cli.Done || !strings.Contains(out, "9007199254740993") {
		t.Fatalf("adopt: %d %s %s", code, out, errs)
	}
	if err := old.Ping(t.Context()); err == nil {
		t.Error("a session of the old issuer is still open")
	}
	if _, err := rebuilt.connect(3); err != nil {
		t.Error(err)
	}
	_, err = r.connect(token)
	wantCode(t, err, "RF004")
}

// The restored coordinator's leader has a token below the mark.
func TestARestoredCoordinatorNeedsANewIssuer(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	if code, _, errs := invoke(t, env, "adopt", "--new-issuer", "orders"); code != cli.Usage ||
		!strings.Contains(errs, "GUARD_COORDINATOR") {
		t.Errorf("without a coordinator: exit %d: %s", code, errs)
	}
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	env = append(env, "GUARD_COORDINATOR=zk://"+zk.Addr())
	r := serving(t, env...)
	r.ready(http.StatusOK)
	resign(t, elected(t, zk)) // the election and the issuer are in the backup
	must.Succeed(t, zk.Backup())
	for range 20 {
		resign(t, elected(t, zk))
	}
	_, err := r.connect(int(elected(t, zk).Token()))
	must.Succeed(t, err)
	must.Succeed(t, zk.Restore(t.Context()))
	token := int(elected(t, zk).Token())
	_, err = r.connect(token)
	wantCode(t, err, "RF004")
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok ||
		!strings.Contains(pg.Hint, "guard adopt --new-issuer orders") {
		t.Errorf("it says %v", err)
	}
	dead := append(slices.Clone(env),
		"GUARD_POSTGRES_UPSTREAM=postgres://guard@"+serverstest.FreeAddresses(t, 1)[0]+"/postgres")
	if code, out, errs := invoke(t, dead, "adopt", "--new-issuer", "orders"); code != cli.Error ||
		out != "" || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("with a store that is down: exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := invoke(t, env, "status"); code != cli.Done || !strings.Contains(out, "the "+
		"coordinator went back") {
		t.Errorf("status: exit %d: %s", code, out)
	}
	if code, out, errs := invoke(t, env, "adopt", "orders"); code != cli.Error ||
		out != "" || !strings.Contains(errs, "guard adopt --new-issuer orders") {
		t.Errorf("under the issuer of old tokens: exit %d: %s%s", code, out, errs)
	}
	code, out, errs := invoke(t, env, "adopt", "--new-issuer", "orders")
	if code != cli.Done || strings.Count(out, "zk:") != 4 {
		t.Fatalf("adopt: %d %s %s", code, out, errs)
	}
	if _, err := r.connect(token); err != nil { // the same guard, which remembers the earlier mark
		t.Error(err)
	}
}

func TestAPoolerInFrontOfPostgresStopsTheStart(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	invoke(t, env, "install")
	bouncer := serverstest.PgBouncer(t, pg, servers.PgBouncerOptions{})
	code, _, errs := invoke(t, []string{
		"GUARD_POSTGRES_LISTEN=127.0.0.1:0",
		"GUARD_POSTGRES_UPSTREAM=" + bouncer.URL("guard", "postgres"),
	}, "serve")
	if code != cli.Error || !strings.Contains(errs, "pooler") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestPreparedTransactionsStopTheStart(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_prepared_transactions": "1"},
	})
	env := []string{
		"GUARD_POSTGRES_LISTEN=127.0.0.1:0", "GUARD_POSTGRES_UPSTREAM=" + pg.URL("postgres", "postgres"),
	}
	invoke(t, env, "install")
	code, _, errs := invoke(t, env, "serve")
	if code != cli.Error || !strings.Contains(errs, "max_prepared_transactions") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestAShutdownNotifiesIdleSessionsAndEnds(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	r := serving(t, env...)
	r.ready(http.StatusOK)
	c, err := r.connect(1)
	must.Succeed(t, err)
	r.stop()
	for err == nil { // a query that was on its way may still be answered
		_, err = c.Exec(t.Context(), "select 1")
	}
	wantCode(t, err, "57P01")
	code := <-r.exited
	r.exited <- code
	if code != cli.Done {
		t.Errorf("exit code %d", code)
	}
}

func TestWhileTheCoordinatorIsDownTheGuardRunsAndRefuses(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	r := serving(t, append(env, "GUARD_COORDINATOR=zk://"+serverstest.FreeAddresses(t, 1)[0],
		"GUARD_ADMIT_TIMEOUT=1s")...)
	r.ready(http.StatusServiceUnavailable)
	_, err := r.connect(1)
	wantCode(t, err, "RF011")
}
