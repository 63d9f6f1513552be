package pgtest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
)

// observer is the session in which a test prepares and reads a database. It is opened once for a
// test, because a process of Postgres for each look costs more than all the looks.
type observer struct {
	turn sync.Mutex
	conn *pgx.Conn
}

type observed struct {
	t   testing.TB
	url string
}

var observers sync.Map // of *observer by observed

// observe calls use with a session of this URL that has no state of earlier calls. Calls at the
// same time have sessions of their own. use is called again if the session had ended before.
func observe(t testing.TB, url, sql string, use func(context.Context, *pgx.Conn) error) {
	t.Helper()
	key := observed{t, url}
	kept, found := observers.LoadOrStore(key, &observer{})
	o := kept.(*observer)
	if !found {
		t.Cleanup(func() {
			observers.Delete(key)
			o.close(t)
		})
	}
	if !o.turn.TryLock() {
		o = &observer{}
		o.turn.Lock()
		defer o.close(t)
	}
	defer o.turn.Unlock()
	ctx, cancel := within(t)
	defer cancel()
	for {
		again := o.conn != nil
		o.open(ctx, t, url)
		err := use(ctx, o.conn)
		ended := o.conn.IsClosed()
		if ended || o.clear(ctx) != nil {
			_ = o.conn.Close(ctx)
			o.conn = nil
		}
		switch {
		case err == nil:
			return
		case !again || !ended:
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func (o *observer) open(ctx context.Context, t testing.TB, url string) {
	t.Helper()
	if o.conn != nil {
		return
	}
	cfg, err := pgx.ParseConfig(url)
	must.Succeed(t, err)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec // clear removes prepared statements
	o.conn, err = pgx.ConnectConfig(ctx, cfg)
	must.Succeed(t, err)
}

// clear ends a transaction, and resets what the session has set.
func (o *observer) clear(ctx context.Context) error {
	if o.conn.PgConn().TxStatus() != 'I' {
		if _, err := o.conn.PgConn().Exec(ctx, "rollback").ReadAll(); err != nil {
			return err
		}
	}
	_, err := o.conn.PgConn().Exec(ctx, "discard all").ReadAll()
	return err
}

func (o *observer) close(t testing.TB) {
	if o.conn != nil {
		ctx, cancel := within(t)
		defer cancel()
		_ = o.conn.Close(ctx)
	}
}
