package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

func TestALateRenewalOfTheIssuerReplacesNoNewerOne(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	before, err := c.Issuer(t.Context())
	must.Succeed(t, err)
	renewed, err := c.RenewIssuer(t.Context())
	if err != nil || renewed == before {
		t.Fatal(renewed, err)
	}
	d.sql(t, "select ringfence.renew_issuer($1)", string(before)) // sent twice
	if now, err := c.Issuer(t.Context()); now != renewed || err != nil {
		t.Errorf("the issuer was renewed to %s and is %s, %v", renewed, now, err)
	}
}

func TestARoleWithoutPrivilegesIsToldWhatAnOperatorRuns(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	role := "plain_" + d.name
	d.sql(t, "create role "+role+" login")
	t.Cleanup(func() {
		d.sql(t, "drop owned by "+role)
		d.sql(t, "drop role "+role)
	})
	url := d.pg.URL(role, d.name)
	_, err := Open(t.Context(), url, Options{})
	wantSetupError(t, err, "permission denied", "Install")
	must.Succeed(t, Install(t.Context(), d.url()))
	_, err = Open(t.Context(), url, Options{})
	wantSetupError(t, err, "permission denied", "Install")
	must.Succeed(t, Install(t.Context(), d.url(), role))
	c := openWith(t, url, long, nil)
	must.Report(t, electiontest.Win(t, c, "orders", "a").Acknowledge(t.Context()))
	if err := Install(t.Context(), d.url()); err != nil { // for others: it keeps what it may
		t.Fatal(err)
	}
	_, err = c.Candidates(t.Context(), "orders")
	_, _, failed := c.Leaders(t.Context(), "orders")
	must.Report(t, errors.Join(err, failed))
	conn := pgtest.Connect(t, url)
	if _, err := conn.Exec(t.Context(), "delete from ringfence_private.candidate"); err == nil {
		t.Error("the role deletes candidates by hand")
	}
}

func TestARoleThatMayCreateASchemaNeedsNoOperator(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	role := "owner_" + d.name
	d.sql(t, "create role "+role+" login")
	d.sql(t, "grant create on database "+d.name+" to "+role)
	t.Cleanup(func() {
		d.sql(t, "drop owned by "+role)
		d.sql(t, "drop role "+role)
	})
	var all sync.WaitGroup
	for range 4 { // at once
		all.Go(func() {
			c, err := Open(t.Context(), d.pg.URL(role, d.name), Options{SessionTimeout: long})
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		})
	}
	all.Wait()
	electiontest.Win(t, openWith(t, d.pg.URL(role, d.name), long, nil), "orders", "a")
	if err := Install(t.Context(), d.url(), role); err != nil { // as an upgrade would
		t.Error(err)
	}
}

func TestASchemaThatIsWipedIsAnotherIssuer(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), 4*time.Second, nil)
	before, err := c.Issuer(t.Context())
	must.Succeed(t, err)
	old := electiontest.Win(t, c, "orders", "a")
	electiontest.Win(t, c, "stock", "a")
	waits := electiontest.Stand(t, openWith(t, d.url(), 4*time.Second, nil), "stock", "c")
	electiontest.Queued(t, c, "stock", 2)
	d.dropSchema(t)
	next := electiontest.Next(t, waits) // it installs the schema again
	again := electiontest.Win(t, c, "orders", "b")
	electiontest.Ends(t, old, fence.ErrExpired)
	if next.Claim().Issuer != again.Claim().Issuer {
		t.Errorf("who waited leads under %s, and not %s", next.Claim().Issuer, again.Claim().Issuer)
	}
	after, err := c.Issuer(t.Context())
	if err != nil || after == before || again.Claim().Issuer != after {
		t.Errorf("the issuer was %s and is %s, the term's is %s, %v",
			before, after, again.Claim().Issuer, err)
	}
}

// dropSchema drops the schema, again while that meets a heartbeat in a deadlock.
func (d database) dropSchema(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url())
	must.Succeed(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for {
		_, err := conn.Exec(t.Context(), "drop schema ringfence, ringfence_private cascade")
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "40P01" {
			continue
		}
		must.Succeed(t, err)
		return
	}
}

func TestAnAnswerIsDurableWhateverTheDefaultsAre(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	term := electiontest.Win(t, c, "orders", "a")
	s := current(c)
	conn := pgtest.Connect(t, d.url()+"&synchronous_commit=off")
	token := fmt.Sprint(int64(term.Token()))
	for _, call := range []string{
		"select ringfence.open_lease('x', 1000)", "select ringfence.close_lease('x')",
		"select ringfence.beat('" + s.id + "')",
		"select ringfence.standing('" + s.id + "', null)",
		"select ringfence.enrol('" + s.id + "', 'x', 'stock', 'a')",
		"select ringfence.nominate('" + s.id + "', 'y', 'stock', 'a')",
		"select ringfence.leaders('{orders}')",
		"select ringfence.candidates('orders')",
		"select ringfence.acknowledge('x', 1)",
		"select ringfence.withdraw('" + s.id + "', '{x}')",
		"select ringfence.depose('orders', " + token + ")",
		"select ringfence.renew_issuer('')",
		"delete from ringfence_private.candidate", "delete from ringfence_private.lease",
	} {
		tx, err := conn.Begin(t.Context())
		must.Succeed(t, err)
		_, err = tx.Exec(t.Context(), call)
		must.Succeed(t, err)
		var now string
		err = tx.QueryRow(t.Context(), "show synchronous_commit").Scan(&now)
		if err != nil || now != "on" {
			t.Errorf("%s: synchronous_commit is %s, %v", call, now, err)
		}
		must.Succeed(t, tx.Rollback(t.Context()))
	}
}

// Where somebody waits, the next leader must not be undone by a crash.
func TestAResignationWaitsForTheDiskIfSomebodyElseIsInTheElection(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), long, nil)
	electiontest.Win(t, c, "orders", "a")
	s := current(c)
	resign := func() (mode string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), d.url())
		must.Succeed(t, err)
		defer conn.Close(context.WithoutCancel(t.Context()))
		tx, err := conn.Begin(t.Context())
		must.Succeed(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		key := s.Enrolled()[0].Key
		_, err = tx.Exec(t.Context(), "select ringfence.resign($1, $2)", s.id, key)
		must.Succeed(t, err)
		var left int
		err = tx.QueryRow(t.Context(), `select current_setting('synchronous_commit'),
			(select count(*) from ringfence_private.candidate where id = $1)`, key).Scan(&mode, &left)
		if err != nil || left != 0 {
			t.Fatalf("%d candidates are left, %v", left, err)
		}
		return mode
	}
	if mode := resign(); mode != "off" {
		t.Errorf("alone: synchronous_commit is %s", mode)
	}
	other := openWith(t, d.url(), long, nil)
	ctx, stop := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { _, _ = other.Campaign(ctx, "orders", "b") })
	defer waiting.Wait()
	defer stop()
	electiontest.Queued(t, c, "orders", 2)
	if mode := resign(); mode != "on" {
		t.Errorf("while another one waits: synchronous_commit is %s", mode)
	}
}

func TestAnotherIsolationLevelIsRefused(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	d.sql(t, "alter database "+d.name+" set default_transaction_isolation = 'serializable'")
	_, err := Open(t.Context(), d.url()+"&listen=off", Options{})
	wantSetupError(t, err, "READ COMMITTED", "ALTER ROLE")
	electiontest.Win(t, openWith(t, d.url(), long, nil), "orders", "a") // without a pooler we set it
}
