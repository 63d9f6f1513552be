package sqlterms

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
)

// A session has entered often, so the server keeps its plans. What counts is whether authorization
// is on when it enters, however old its snapshot is.
func TestAuthorizationCountsForPlansAndSnapshotsOfBefore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, c := s.connect("postgres"), s.connect("app")
	pass := s.ready(c, "take('orders', 'host-1', 1)").Pass
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		s.exec(admin, "select ringfence.authorize(false)")
		for range 10 {
			must.Succeed(t, s.enters(c, level, pass, ""))
		}
		s.fails(s.enters(c, level, pass, "select ringfence.authorize(true)"), "RF010")
		must.Succeed(t, s.install())
		s.fails(s.enters(c, level, pass, ""), "RF010") // an installation leaves it on
		if err := s.enters(c, level, pass, "select ringfence.authorize(false)"); err != nil {
			t.Errorf("%s, switched off: %v", level, err)
		}
	}
}

// enters begins a transaction, looks at something, lets the administrator run a statement, and
// enters.
func (s *stage) enters(c *pgx.Conn, level pgx.TxIsoLevel, pass *string, between string) error {
	tx, err := c.BeginTx(s.ctx, pgx.TxOptions{IsoLevel: level})
	must.Succeed(s, err)
	defer func() { _ = tx.Rollback(s.ctx) }()
	_, err = tx.Exec(s.ctx, "select count(*) from pg_class")
	must.Succeed(s, err)
	if between != "" {
		s.exec(s.connect("postgres"), between)
	}
	_, err = tx.Exec(s.ctx, "select ringfence.enter($1::text)", pass)
	return err
}
