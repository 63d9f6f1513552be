package pgmarks

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
)

// appPool opens a connection pool of the application. more is appended to the URL.
func (d database) appPool(t *testing.T, url, more string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url + more)
	must.Succeed(t, err)
	p, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must.Succeed(t, err)
	t.Cleanup(p.Close)
	return p
}

func TestBeginWorksOnEveryKindOfConnectionAndARefusalKeepsItUsable(t *testing.T) {
	t.Parallel()
	d := led(t)
	old, c := d.lead(t, d.next()), d.lead(t, d.next())
	pool := d.appPool(t, d.url("app"), "&pool_max_conns=2")
	pooled, err := pool.Acquire(t.Context())
	must.Succeed(t, err)
	defer pooled.Release()
	single := d.connect(t, "app")
	for name, db := range map[string]Beginner{"conn": single, "pooled conn": pooled, "pool": pool} {
		for range 5 { // more often than the pool has connections
			var r *fence.Refusal
			err := try(t, db, old, pgx.ReadCommitted)
			if !errors.As(err, &r) || r.Reason != fence.ErrStale || r.Claim != old || r.Mark != c.Token {
				t.Errorf("%s: got %v", name, err)
			}
		}
		tx, err := Begin(t.Context(), db, c, at(pgx.Serializable))
		if err != nil {
			t.Errorf("%s: after refusals: %v", name, err)
			continue
		}
		var level, pid string
		err = tx.QueryRow(t.Context(), `select
		    current_setting('transaction_isolation'), pg_backend_pid()::text`).Scan(&level, &pid)
		if err != nil || level != "serializable" {
			t.Errorf("%s: the transaction runs at %s: %v", name, level, err)
		}
		inside := d.list(t, `select pid::text from pg_locks
		    where relation = 'ringfence_private.entered'::regclass and mode = 'AccessShareLock'`)
		if len(inside) != 1 || inside[0] != pid {
			t.Errorf("%s: the backends that have entered are %s, want %s", name, inside, pid)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if single.IsClosed() || pooled.Conn().IsClosed() {
		t.Error("a refusal has closed the connection")
	}
}

func TestBeginLeavesNothingBehindWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.next())
	locker := d.connect(t, "postgres")
	execute(t, locker, "begin")
	execute(t, locker, "lock table ringfence_private.entered in access exclusive mode")
	conn, begun := d.connect(t, "app"), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := Begin(ctx, conn, c, pgx.TxOptions{})
		begun <- err
	}()
	d.waits(t, "ringfence.enter", begun)
	cancel()
	if err := <-begun; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	execute(t, locker, "rollback")
	d.until(t, "select (count(*) = 0)::text from pg_stat_activity where pid = $1",
		int64(conn.PgConn().PID()))
}

func TestATransactionMayEnterForSeveralResourcesAndIsEndedByEach(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, deposed := range []fence.Resource{"orders", "stock"} {
		orders, stock := d.next(), d.next()
		stock.Resource = "stock"
		d.lead(t, orders)
		d.lead(t, stock)
		_, tx := d.enters(t, orders, pgx.TxOptions{})
		must.Succeed(t, Enter(t.Context(), tx, stock))
		newer := d.next()
		newer.Resource = deposed
		d.lead(t, newer)
		if err := tx.Commit(t.Context()); err == nil || d.landed(t, orders) != "0" {
			t.Errorf("%s: the transaction was committed: %v", deposed, err)
		}
	}
}

func TestTheCallersTransactionOptionsAreKept(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.next())
	for _, o := range []pgx.TxOptions{
		{BeginQuery: "begin read only isolation level repeatable read"},
		{BeginQuery: "begin read only isolation level repeatable read;"},
		{BeginQuery: "begin read only isolation level repeatable read -- as the manual has it"},
		{BeginQuery: "start transaction read only, isolation level repeatable read"},
		{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.NotDeferrable},
	} {
		tx, err := Begin(t.Context(), d.connect(t, "app"), c, o)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
			continue
		}
		var mode, level string
		if err := tx.QueryRow(t.Context(),
			"select current_setting('transaction_read_only'), "+
				"current_setting('transaction_isolation')").Scan(&mode, &level); err != nil {
			t.Error(err)
		}
		if mode != "on" || level != "repeatable read" || d.holders(t) != "1" {
			t.Errorf("%+v: read only is %s, the level %s, %s have entered",
				o, mode, level, d.holders(t))
		}
		must.Report(t, tx.Rollback(t.Context()))
	}
}

func TestAClaimWithQuotesAndBackslashesIsEscaped(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, conforming := range []string{"on", "off"} {
		c := d.next()
		c.Issuer = `zk:it's "a" \ back\\slash\' $1 -- ; select`
		_, err := d.s.Adopt(t.Context(), c, "me")
		must.Succeed(t, err)
		conn := d.connect(t, "app")
		execute(t, conn, "set standard_conforming_strings = "+conforming)
		tx, err := Begin(t.Context(), conn, c, pgx.TxOptions{})
		if err != nil {
			t.Errorf("standard_conforming_strings %s: %v", conforming, err)
			continue
		}
		must.Report(t, Enter(t.Context(), tx, c))
		must.Report(t, tx.Rollback(t.Context()))
	}
}

func TestDefaultsOfRoleAndDatabaseDoNotWeakenTheCheck(t *testing.T) {
	t.Parallel()
	d := led(t)
	for _, level := range levels {
		d.sql(t, "alter database "+d.name+" set default_transaction_isolation = '"+string(level)+
			"'; alter role app in database "+d.name+" set search_path = 'nowhere'")
		old := d.lead(t, d.next())
		conn := d.connect(t, "app")
		execute(t, conn, "begin")
		execute(t, conn, "insert into public.entry values (0)")
		d.lead(t, d.next())
		_, err := conn.Exec(t.Context(), enterQuery(old))
		refused(t, Refused(err, old), level, false)
	}
}
