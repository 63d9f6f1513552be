package pgmarks

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
)

// recorded is a realm that keeps the order of commits: each write increments a counter, whose row
// stays locked until the write has committed.
func recorded(t *testing.T) *realm {
	t.Helper()
	d := led(t)
	d.sql(t, `create table counter (resource text primary key, n bigint);
	    insert into counter values ('orders', 0), ('stock', 0);
	    create table history (resource text, token bigint, n bigint);
	    grant all on counter, history to app`)
	return d
}

func TestWritesOfTransactionsAndSessionsNeverGoBackToAnOlderToken(t *testing.T) {
	t.Parallel()
	d := recorded(t)
	h := &guardtest.Histories{Open: d.openLease, Written: d.written, Moves: 40}
	h.FindNoStaleWrite(t)
}

// Where everybody is let in, the same work must find stale writes, or the test above proves
// nothing.
func TestWithoutTheCheckTheSameWorkFindsStaleWrites(t *testing.T) {
	t.Parallel()
	d := recorded(t)
	d.sql(t, `create or replace
	    function ringfence.enter(resource text, token bigint, issuer text, candidate text default '') returns void
	    language sql set search_path = pg_catalog, pg_temp as ''`)
	h := &guardtest.Histories{Open: d.openLease, Written: d.written, Moves: 40}
	h.FindStaleWrites(t)
}

func (r *realm) written(t testing.TB, resource string) []fence.Token {
	t.Helper()
	c := r.connect(t, "postgres")
	rows, err := c.Query(t.Context(), "select token from history where resource = $1 order by n",
		resource)
	must.Succeed(t, err)
	tokens, err := pgx.CollectRows(rows, pgx.RowTo[fence.Token])
	must.Succeed(t, err)
	return tokens
}

// openLease opens a leader's connection: its transactions enter, or it is registered as a session,
// by a guard or by itself. It raises the mark first. It may give the raise up at any point, and
// writes anyway.
func (r *realm) openLease(
	ctx context.Context, rnd *rand.Rand, resource string, token fence.Token,
) (guardtest.Writer, error) {
	cfg, err := pgx.ParseConfig(r.url("app"))
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["lock_timeout"] = "20"
	cfg.RuntimeParams["synchronous_commit"] = "off"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l := &lease{conn: conn, claim: fence.Claim{
		Resource: fence.Resource(resource), Token: token, Issuer: elector.Unverified, Holder: "host",
	}}
	switch rnd.IntN(4) {
	case 0:
		l.admitted, err = true, r.admit(ctx, conn, l.claim)
	case 1:
		r.claim(ctx, rnd, l.claim)
		l.admitted, err = Attach(ctx, conn, l.claim)
	default:
		r.claim(ctx, rnd, l.claim)
	}
	if err != nil {
		l.Close(rnd)
		return nil, err
	}
	return l, nil
}

func (r *realm) admission() *marks.Admission {
	return &marks.Admission{Store: r.s, Authority: marks.Unverified{}}
}

// admit makes a connection a session under a claim, as a guard does.
func (r *realm) admit(ctx context.Context, conn *pgx.Conn, c fence.Claim) error {
	sess, err := identify(ctx, conn)
	if err != nil {
		return err
	}
	return r.admission().Admit(ctx, sess, marks.Present(c))
}

// claim raises the mark as a leader without a guard does. It may fail: then the fence must keep the
// leader out.
func (r *realm) claim(ctx context.Context, rnd *rand.Rand, c fence.Claim) {
	if rnd.IntN(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(10_000))*time.Microsecond)
		defer cancel()
	}
	_ = r.admission().Raise(ctx, c)
}

// lease is a leader's connection.
type lease struct {
	conn     *pgx.Conn
	claim    fence.Claim
	admitted bool   // a registered session, whose transactions need not enter
	tx       pgx.Tx // open, or nil
	wrote    bool   // in tx
}

// Close is guardtest.Writer's.
func (l *lease) Close(rnd *rand.Rand) {
	if rnd.IntN(2) == 0 {
		_ = l.conn.PgConn().Conn().Close()
	}
	_ = l.conn.Close(context.Background())
}

// Write is guardtest.Writer's. A transaction may stay open after it has entered, and after it has
// written.
func (l *lease) Write(ctx context.Context, rnd *rand.Rand) (err error) {
	if l.tx == nil {
		if l.tx, err = l.begin(ctx, rnd); err != nil || rnd.IntN(4) == 0 {
			return l.again(ctx, err)
		}
	}
	if !l.wrote {
		const entry = `with c as (update counter set n = n + 1 where resource = $1 returning n)
		    insert into history select $1, $2, n from c`
		_, err = l.tx.Exec(ctx, entry, string(l.claim.Resource), int64(l.claim.Token))
		if l.wrote = err == nil; err != nil || rnd.IntN(4) == 0 {
			return l.again(ctx, err)
		}
	}
	err = l.tx.Commit(ctx)
	l.tx, l.wrote = nil, false
	return l.again(ctx, err)
}

// begin begins a transaction at any isolation level. It enters unless the session is registered.
func (l *lease) begin(ctx context.Context, rnd *rand.Rand) (pgx.Tx, error) {
	level := levels[rnd.IntN(len(levels))]
	if l.admitted {
		return l.conn.BeginTx(ctx, at(level))
	}
	return Begin(ctx, l.conn, l.claim, at(level))
}

// again returns nil where another attempt on the same connection may succeed.
func (l *lease) again(ctx context.Context, err error) error {
	switch sqlstate(err) {
	case "40001", "55P03": // a conflict; a lock timeout
		if l.tx != nil {
			err = l.tx.Rollback(ctx)
			l.tx, l.wrote = nil, false
			return err
		}
		return nil
	}
	if errors.Is(err, fence.ErrNotRaised) {
		return nil
	}
	return err
}
