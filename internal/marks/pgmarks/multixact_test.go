package pgmarks

import (
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
)

// Shared row locks on one hot row consume multixact ids until Postgres forces a vacuum of the whole
// database.
func TestTransactionsOfOneTermConsumeNoMultixacts(t *testing.T) {
	t.Parallel()
	d := led(t)
	c := d.lead(t, d.lead(t, d.next())) // raising again must not leave a lock on the row either
	before := d.multixacts(t)
	for _, level := range levels {
		d.together(t, func(conn *pgx.Conn) (pgx.Tx, error) {
			return Begin(t.Context(), conn, c, at(level))
		})
	}
	after := d.multixacts(t)
	if after != before {
		t.Errorf("%d multixact ids were consumed", after-before)
	}
	d.sql(t,
		"grant usage on schema ringfence_private to app; grant select, update on "+
			"ringfence_private.gate to app")
	d.together(t, func(conn *pgx.Conn) (pgx.Tx, error) {
		return conn.BeginTx(t.Context(), pgx.TxOptions{
			BeginQuery: "begin; select from ringfence_private.gate for share",
		})
	})
	if d.multixacts(t) == after {
		t.Error("shared row locks consume none either: this test proves nothing")
	}
}

// together opens transactions on several connections at the same time, three times.
func (d database) together(t *testing.T, begin func(*pgx.Conn) (pgx.Tx, error)) {
	t.Helper()
	var conns []*pgx.Conn
	for range 6 {
		conns = append(conns, d.connect(t, "app"))
	}
	for range 3 {
		var open []pgx.Tx
		for _, conn := range conns {
			tx, err := begin(conn)
			must.Succeed(t, err)
			open = append(open, tx)
		}
		for _, tx := range open {
			must.Succeed(t, tx.Commit(t.Context()))
		}
	}
}

// multixacts returns the server's next multixact id.
func (d database) multixacts(t *testing.T) int64 {
	t.Helper()
	d.sql(t, "checkpoint")
	n, err := strconv.ParseInt(d.list(t,
		"select next_multixact_id::text from pg_control_checkpoint()")[0], 10, 64)
	must.Succeed(t, err)
	return n
}
