package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A guard without a listener raises the marks: leaders need no right to do so, and no guard in
// their path.
func TestAGuardWithoutClientsRaisesMarks(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	admin := pg.URL("postgres", "postgres")
	invoke(t, env, "install")
	first := elected(t, zk)
	r := servingAt(t, "",
		append(env, "GUARD_COORDINATOR=zk://"+zk.Addr(), "GUARD_RESOURCES=orders")...)
	r.ready(http.StatusOK)
	raisedTo(t, admin, first.Token())
	must.Succeed(t, pg.Kill())
	must.Succeed(t, pg.Start(t.Context()))
	raisedTo(t, admin, first.Token())

	direct := pgtest.HasLoginTriggers(t, admin)
	connect := func(token int64) (*pgx.Conn, error) {
		return dial(t, pg.Addr(), "postgres", int(token))
	}
	var open *pgx.Conn
	if direct {
		if code, _, errs := invoke(t, env, "direct", "app"); code != cli.Done {
			t.Fatal(errs)
		}
		var err error
		open, err = connect(int64(first.Token()))
		must.Succeed(t, err)
	}
	resign(t, first)
	second := elected(t, zk)
	raisedTo(t, admin, second.Token())
	if direct {
		_, err := open.WaitForNotification(t.Context())
		if err == nil {
			t.Error("the session of the earlier leader goes on")
		}
		_, err = connect(int64(first.Token()))
		wantCode(t, err, "RF001")
		if _, err = connect(int64(second.Token())); err != nil {
			t.Error(err)
		}
	}
	if code, _, errs := invoke(t, env, "serve"); code != cli.Usage ||
		!strings.Contains(errs, "GUARD_COORDINATOR, to raise marks without clients") {
		t.Errorf("without a listener and a coordinator: exit %d, %s", code, errs)
	}
}

// It looks after every database that its settings name, also after one that is made later.
func TestAGuardWithoutClientsRaisesMarksInEveryDatabase(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	admin := pg.URL("postgres", "postgres")
	pgtest.Exec(t, admin, "create database crm")
	env = append(env, "GUARD_POSTGRES_DATABASES=postgres,crm,later")
	for _, database := range []string{"postgres", "crm"} {
		invoke(t, env, "install", "--databases", database)
	}
	first := elected(t, zk)
	r := servingAt(t, "",
		append(env, "GUARD_COORDINATOR=zk://"+zk.Addr(), "GUARD_RESOURCES=orders")...)
	r.ready(http.StatusOK)
	if !poll.Until(time.Minute, func() bool {
		return strings.Contains(r.log.String(), "a database cannot be opened")
	}) {
		t.Error("nothing is said of the database that is not there")
	}
	pgtest.Exec(t, admin, "create database later")
	invoke(t, env, "install", "--databases", "later")
	for _, database := range []string{"postgres", "crm", "later"} {
		raisedTo(t, pg.URL("postgres", database), first.Token())
	}
}

// raisedTo waits until a database has the mark of orders.
func raisedTo(t *testing.T, url string, token fence.Token) {
	t.Helper()
	if !poll.Until(time.Minute, func() bool {
		return pgtest.Value[bool](t, url, "select exists (select from ringfence.marks(null) "+
			"where resource = 'orders' and token = $1 and confirmed)", int64(token))
	}) {
		t.Fatalf("the mark is not raised: %s", url)
	}
}
