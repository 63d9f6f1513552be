package sqlterms

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence/postgres"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// A caller may leave the transaction of its call open, in any state: that delays its own resource
// alone.
func TestACallThatIsHeldOpenDelaysItsResourceAlone(t *testing.T) {
	t.Parallel()
	const session = 4 * time.Second
	for name, hold := range map[string]func(s *stage, tx pgx.Tx, of term) error{
		"a first campaign": func(s *stage, tx pgx.Tx, _ term) error {
			_, err := tx.Exec(s.ctx, "select ringfence.campaign('mine'::text, 'holds')")
			return err
		},
		"a campaign that passes expired leases over": func(s *stage, tx pgx.Tx, _ term) error {
			s.exec(s.connect("postgres"), "update ringfence_private.lease set expires_at = "+
				"clock_timestamp() where id like 'sql %'")
			_, err := tx.Exec(s.ctx, "select ringfence.campaign('led'::text, 'holds')")
			return err
		},
		"a take": func(s *stage, tx pgx.Tx, _ term) error {
			_, err := tx.Exec(s.ctx, "select ringfence.take('led', 'holds', 2)")
			return err
		},
		"a leave": func(s *stage, tx pgx.Tx, of term) error {
			_, err := tx.Exec(s.ctx, "select ringfence.leave($1)", of.Pass)
			return err
		},
		"an enter": func(s *stage, tx pgx.Tx, of term) error {
			_, err := tx.Exec(s.ctx, "select ringfence.enter($1)", of.Pass)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			coordinator, err := postgres.Open(s.ctx, s.url("postgres"),
				postgres.Options{SessionTimeout: session})
			must.Succeed(t, err)
			t.Cleanup(func() { _ = coordinator.Close() })
			healthy := electiontest.Win(t, coordinator, "healthy", "go")
			both, err := s.call(s.connect("app"), "campaign(array['led', 'other'], 'host-1')")
			must.Succeed(t, err)
			tx, err := s.connect("app").Begin(s.ctx)
			must.Succeed(t, err)
			must.Succeed(t, hold(s, tx, both[0]))
			// a statement that needs nothing of ours
			s.exec(s.connect("postgres"), "alter role app reset all")
			c := s.connect("app")
			s.exec(c, "set statement_timeout = '2s'")
			for _, call := range []string{
				"campaign('other'::text, 'host-1')", "campaign('other'::text, 'host-2')", "take('third', " +
					"'host-1', 1)", "take('third', 'host-2', 2)",
				"campaign(array['a', 'b'], 'host-3')",
			} {
				if _, err := s.call(c, call); err != nil {
					t.Errorf("%s: %v", call, err)
				}
			}
			electiontest.Win(t, coordinator, "next", "go")
			from := time.Now().Add(session)
			electiontest.Eventually(t, "the healthy leader goes on", func() bool {
				return healthy.Deadline().After(from)
			})
			_ = tx.Rollback(s.ctx)
		})
	}
}
