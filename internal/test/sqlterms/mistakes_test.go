package sqlterms

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/must"
)

// fencing is a way to keep a deposed leader from writing. docs/by-hand.md has the SQL of each.
type fencing struct {
	setup string
	// take makes a holder the leader, and returns what its transactions present.
	take func(s *stage, c *pgx.Conn, holder string) any
	// write checks and writes, in a transaction or without one.
	write func(s *stage, c querier, credential any) error
}

// changes runs a statement that must return or change a row, as hand-written fences do.
func changes(s *stage, c querier, sql string, args ...any) error {
	rows, err := c.Query(s.ctx, sql, args...)
	if err != nil {
		return err
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	if rows.CommandTag().RowsAffected() == 0 {
		return fmt.Errorf("refused: no row was changed")
	}
	return nil
}

const leaseTable = "create table lease (token bigint, holder text); insert into lease values (0, " +
	"''); grant all on lease to app;"

// takeLease takes the lease row in one statement, which is right.
func takeLease(s *stage, c *pgx.Conn, holder string) any {
	var token int64
	if err := c.QueryRow(s.ctx, "update lease set token = token + 1, holder = $1 returning token",
		holder).Scan(&token); err != nil {
		s.Fatal(err)
	}
	return token
}

// ours is the contract.
var ours = fencing{
	take: func(s *stage, c *pgx.Conn, holder string) any {
		return *s.ready(c, "take('orders', $1)", holder).Pass
	},
	write: func(s *stage, c querier, pass any) error {
		return changes(s, c, "select as_leader($1)", pass)
	},
}

// A mistake is a fence that was written by hand, and the interleaving in which it loses: the
// interleaving returns whether the older leader's write is there although the newer one has begun.
var mistakes = []struct {
	name  string
	fence fencing
	loses func(*stage, fencing) bool
}{
	{"a check without a lock", fencing{leaseTable, takeLease, func(
		s *stage, c querier, token any,
	) error {
		return changes(s, c, "insert into written (token) select $1 where exists (select from lease "+
			"where token = $1)", token)
	}}, inFlight},
	{"an old snapshot", fencing{leaseTable, takeLease, func(s *stage, c querier, token any) error {
		if err := changes(s, c, "select from lease where token = $1", token); err != nil {
			return err
		}
		return changes(s, c, "insert into written (token) values ($1)", token)
	}}, oldSnapshot},
	{"a token that is read and then written", fencing{leaseTable, nil, func(
		s *stage, c querier, token any,
	) error {
		return changes(s, c, "with mine as (select from lease where token = $1 for share) insert into "+
			"written (token) select $1 from mine", token)
	}}, takenTwice},
	{"an epoch that nobody holds", fencing{leaseTable, takeLease, func(
		s *stage, c querier, token any,
	) error {
		return changes(s, c, "with mine as (select from lease where token = $1 for share) insert into "+
			"written (token) select $1 from mine", token)
	}}, nobodysEpoch},
	{"a predicate that the successor's row satisfies", fencing{
		"create table job (state text, attempt int); insert into job values ('running', 1); grant all " +
			"on job to app;",
		func(s *stage, c *pgx.Conn, _ string) any {
			must.Succeed(s, changes(s, c, "update job set attempt = attempt + 1"))
			return nil
		},
		func(s *stage, c querier, _ any) error {
			return changes(s, c, "with mine as (update job set state = 'running' where state = 'running' "+
				"returning 1) insert into written (token) select 1 from mine")
		},
	}, afterwards},
	{"a check when the session opens", fencing{leaseTable, takeLease, func(
		s *stage, c querier, token any,
	) error {
		// it was checked at login
		return changes(s, c, "insert into written (token) select 1 where $1::bigint is not null", token)
	}}, afterwards},
	{"a check in another store", fencing{leaseTable, takeLease, nil}, checkedElsewhere},
	{"a session lock behind a pooler", fencing{}, lockBehindAPooler},
}

func TestAFenceThatIsWrittenByHandLosesAWriteAndOursDoesNot(t *testing.T) {
	t.Parallel()
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			s := newStage(t)
			s.exec(s.connect("postgres"), m.fence.setup)
			if !m.loses(s, m.fence) {
				t.Error("the hand-written fence has held: the test proves nothing")
			}
		})
		t.Run(m.name+"/ours", func(t *testing.T) {
			if s := newStage(t); m.loses(s, ours) {
				t.Error("a write of the older leader is there")
			}
		})
	}
}

// inFlight: the older transaction has written, and commits after the newer leader has begun.
func inFlight(s *stage, f fencing) bool {
	a, b := s.connect("app"), s.connect("app")
	first := f.take(s, a, "host-1")
	tx, err := a.Begin(s.ctx)
	if err == nil {
		err = f.write(s, tx, first)
	}
	must.Succeed(s, err)
	second := f.take(s, b, "host-2")
	must.Succeed(s, f.write(s, b, second))
	return tx.Commit(s.ctx) == nil
}

// oldSnapshot: the older transaction has begun before the newer leader did, and writes afterwards.
func oldSnapshot(s *stage, f fencing) bool {
	a, b := s.connect("app"), s.connect("app")
	first := f.take(s, a, "host-1")
	tx, err := a.BeginTx(s.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = tx.Exec(s.ctx, "select count(*) from written")
	}
	must.Succeed(s, err)
	second := f.take(s, b, "host-2")
	must.Succeed(s, f.write(s, b, second))
	return f.write(s, tx, first) == nil && tx.Commit(s.ctx) == nil
}

// afterwards: the older leader writes after the newer one has begun.
func afterwards(s *stage, f fencing) bool {
	a, b := s.connect("app"), s.connect("app")
	first := f.take(s, a, "host-1")
	second := f.take(s, b, "host-2")
	must.Succeed(s, f.write(s, b, second))
	return f.write(s, a, first) == nil
}

// takenTwice: two processes take at once. By hand each reads the token, and writes the next one.
func takenTwice(s *stage, f fencing) bool {
	a, b := s.connect("app"), s.connect("app")
	if f.take != nil {
		first, second := f.take(s, a, "host-1"), f.take(s, b, "host-2")
		return f.write(s, b, second) == nil && f.write(s, a, first) == nil
	}
	var read [2]int64
	for i, c := range []*pgx.Conn{a, b} {
		must.Succeed(s, c.QueryRow(s.ctx, "select token from lease").Scan(&read[i]))
	}
	for i, c := range []*pgx.Conn{a, b} {
		must.Succeed(s, changes(s, c, "update lease set token = $1", read[i]+1))
	}
	return f.write(s, b, read[1]+1) == nil && f.write(s, a, read[0]+1) == nil
}

// nobodysEpoch: a process that has taken nothing presents what nobody holds.
func nobodysEpoch(s *stage, f fencing) bool {
	var nothing any = int64(0)
	if f.setup == "" {
		nothing = ""
	}
	return f.write(s, s.connect("app"), nothing) == nil
}

// checkedElsewhere: the check is in one transaction, as in another store, and the write in the next
// one.
func checkedElsewhere(s *stage, f fencing) bool {
	a, b := s.connect("app"), s.connect("app")
	first := f.take(s, a, "host-1")
	if f.write == nil {
		must.Succeed(s, changes(s, a, "select from lease where token = $1", first))
	}
	f.take(s, b, "host-2")
	if f.write != nil {
		return f.write(s, a, first) == nil
	}
	return changes(s, a, "insert into written (token) values (1)") == nil
}

// lockBehindAPooler: the lock stays with the pooler's session, and whoever gets that next has it
// too.
func lockBehindAPooler(s *stage, f fencing) bool {
	if f.take != nil {
		return afterwards(s, f)
	}
	at := s.pooler("transaction")
	for range 2 {
		var mine bool
		if err := s.pooled(at).QueryRow(s.ctx,
			"select pg_try_advisory_lock(7)").Scan(&mine); err != nil || !mine {
			return false
		}
	}
	return true // both have it
}
