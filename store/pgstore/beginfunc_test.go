package pgstore_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/store/pgstore"
)

func orders(token fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified, Holder: "one"}
}

// transaction is one that writes a row, and then what fails has it do.
type transaction struct {
	*stage
	db     *pgxpool.Pool
	raiser fence.Raiser
}

func newTransaction(t *testing.T, change func(*pgxpool.Config)) *transaction {
	t.Helper()
	s := newStage(t)
	cfg, err := pgstore.ParseConfig(s.direct())
	must.Succeed(t, err)
	if change != nil {
		change(cfg)
	}
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must.Succeed(t, err)
	t.Cleanup(db.Close)
	return &transaction{s, db, pgmarks.NewRaiser(s.server.URL("guard_role", s.database))}
}

func (x *transaction) run(c fence.Claim, fails func(tx pgx.Tx) error) error {
	return pgstore.BeginFunc(x.t.Context(), x.db, x.raiser, c, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(x.t.Context(), writeOne); err != nil {
			return err
		}
		return fails(tx)
	})
}

func done(pgx.Tx) error { return nil }

func TestATransactionRaisesAMarkThatIsNotRaised(t *testing.T) {
	x := newTransaction(t, nil)
	must.Succeed(t, x.run(orders(5), done))
	must.Succeed(t, x.run(orders(7), done))
	if n := x.rows(); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestATransactionThatFailsLeavesNothing(t *testing.T) {
	x := newTransaction(t, nil)
	failed := errors.New("failed")
	if err := x.run(orders(5), func(pgx.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("its error: %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = x.run(orders(5), func(pgx.Tx) error { panic("failed") })
	}()
	if err := x.run(orders(5), func(tx pgx.Tx) error {
		must.Succeed(t, x.raiser.Raise(t.Context(), orders(7)))
		_, err := tx.Exec(t.Context(), writeOne)
		return err
	}); err == nil {
		t.Error("committed under an older token")
	}
	if err := x.run(orders(5), done); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the next one: %v", err)
	}
	if n := x.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
	// The pool closes one that has broken on its own time.
	if !poll.Until(10*time.Second, func() bool { return x.db.Stat().AcquiredConns() == 0 }) {
		t.Errorf("%d connections are held", x.db.Stat().AcquiredConns())
	}
}

// cut is a connection that breaks when it should send a COMMIT's answer.
type cut struct {
	net.Conn
	armed *atomic.Bool
}

func (c cut) Read(b []byte) (int, error) {
	if c.armed.Load() {
		_, _ = c.Conn.Read(b) // the answer, which the client does not get
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}

func TestALostAnswerToCommitIsUnknown(t *testing.T) {
	armed := new(atomic.Bool)
	x := newTransaction(t, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, at string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, at)
			return cut{c, armed}, err
		}
	})
	err := x.run(orders(5), func(pgx.Tx) error { armed.Store(true); return nil })
	if !errors.Is(err, fence.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if n := x.rows(); n != 1 {
		t.Errorf("%d rows", n)
	}
	armed.Store(false)
	if err := x.run(orders(5), func(tx pgx.Tx) error {
		_, _ = tx.Exec(t.Context(), "nonsense") // its error is forgotten
		return nil
	}); err == nil || errors.Is(err, fence.ErrUnknown) {
		t.Errorf("a COMMIT that rolls back: %v", err)
	}
}
