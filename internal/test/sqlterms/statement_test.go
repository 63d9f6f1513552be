package sqlterms

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// In PgBouncer's statement mode there is no BEGIN. A transaction is one statement with enter in it, or one message with
// several statements.
func TestThroughAPoolerInStatementMode(t *testing.T) {
	for name, sql := range map[string]string{
		"a CTE":                           "with fence as materialized (select ringfence.enter('PASS')) insert into written (token) select 1 from fence",
		"a CTE and an update":             "with fence as materialized (select ringfence.enter('PASS')) update written set token = token from fence",
		"DO":                              "do $$ begin perform ringfence.enter('PASS'); insert into written (token) values (1); end $$",
		"several statements, one message": "select ringfence.enter('PASS'); insert into written (token) values (1); update written set token = 2",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.exec(s.connect("postgres"), "insert into written (token) values (0)")
			c := s.pooled(s.pooler("statement"))
			run := func(pass *string) error {
				_, err := c.PgConn().Exec(s.ctx, strings.ReplaceAll(sql, "PASS", *pass)).ReadAll()
				return err
			}
			first := s.ready(c, "take('orders', 'host-1', 1)")
			if err := run(first.Pass); err != nil {
				t.Fatal(err)
			}
			second := s.ready(c, "take('orders', 'host-2', 2)")
			written := s.written()
			s.fails(run(first.Pass), "RF001")
			if now := s.written(); now != written {
				t.Errorf("%s was written, then %s", written, now)
			}
			if err := run(second.Pass); err != nil {
				t.Errorf("the newer holder is refused: %v", err)
			}
		})
	}
}

func TestAPoolerInStatementModeRefusesBegin(t *testing.T) {
	s := newStage(t)
	c, err := pgx.Connect(s.ctx, s.pooler("statement"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	_, err = c.Exec(s.ctx, "begin")
	s.fails(err, "08P01")
}

// written returns all rows of the table written, with their versions.
func (s *stage) written() (rows string) {
	s.Helper()
	if err := s.connect("postgres").QueryRow(s.ctx, "select coalesce(string_agg(xmin || ' ' || n || ' ' || token, ', '), '') from written").
		Scan(&rows); err != nil {
		s.Fatal(err)
	}
	return rows
}
