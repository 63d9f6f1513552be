package sqlterms

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// writes are one of each kind, for a table with a row.
var writes = map[string]string{
	"insert": "insert into written (token) values (1)",
	"update": "update written set token = 1",
	"delete": "delete from written",
}

// inFunction is a function of a program's own that enters and then writes.
func inFunction(write string) string {
	return "create or replace function as_leader(pass text) returns void language plpgsql as $$ " +
		"begin perform ringfence.enter(pass); " + write + "; end $$"
}

// forms are transactions for where there is no BEGIN, as docs/sql.md shows them.
var forms = map[string]func(s *stage, c *pgx.Conn, write, pass string) error{
	"several statements, one message": func(s *stage, c *pgx.Conn, write, pass string) error {
		_, err := c.PgConn().Exec(s.ctx, "select ringfence.enter('"+pass+"'); "+write).ReadAll()
		return err
	},
	"DO": func(s *stage, c *pgx.Conn, write, pass string) error {
		_, err := c.Exec(s.ctx, "do $$ begin perform ringfence.enter('"+pass+"'); "+write+"; end $$")
		return err
	},
	"a function": func(s *stage, c *pgx.Conn, write, pass string) error {
		s.exec(s.connect("postgres"), inFunction(write))
		_, err := c.Exec(s.ctx, "select as_leader($1)", pass)
		return err
	},
}

func TestATransactionWithoutBeginWritesOnlyWithThePassThatCounts(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "statement"} {
		for name, run := range forms {
			for kind, write := range writes {
				t.Run(strings.TrimSpace(mode+" "+name+" "+kind), func(t *testing.T) {
					s := newStage(t)
					s.exec(s.connect("postgres"), "insert into written (token) values (0)")
					c := s.connect("app")
					if mode != "" {
						c = s.pooled(s.pooler(mode))
					}
					first := s.ready(c, "take('orders', 'host-1', 1)")
					second := s.ready(c, "take('orders', 'host-2', 2)")
					before := s.written()
					s.fails(run(s, c, write, *first.Pass), "RF001")
					if now := s.written(); now != before {
						t.Errorf("with a stale pass %q became %q", before, now)
					}
					must.Succeed(t, run(s, c, write, *second.Pass))
					if now := s.written(); now == before {
						t.Error("with the pass that counts nothing was written")
					}
				})
			}
		}
	}
}

// skipped are statements that write without enter, which Postgres does not run. docs/sql.md warns
// of them.
func skipped() map[string]string {
	all := map[string]string{
		"EXISTS, update": "update written set token = 1 where exists (select ringfence.enter($1))",
		"EXISTS, delete": "delete from written where exists (select ringfence.enter($1))",
		"no rows, but trigger": "with fence as materialized (select ringfence.enter($1)) insert into " +
			"nothing select 1 from fence where false",
		"MERGE": "with fence as materialized (select ringfence.enter($1)) merge into written w using " +
			"(select 1) x on true when matched then update set token = 1",
	}
	for kind, write := range writes {
		all["a CTE, "+kind] = "with fence as materialized (select ringfence.enter($1)) " + write
	}
	return all
}

func TestPostgresSkipsEnterInTheStatementThatWrites(t *testing.T) {
	t.Parallel()
	for name, write := range skipped() {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.exec(s.connect("postgres"), `insert into written (token) values (0); create table nothing (n int); grant all on nothing to app;
				create function logs() returns trigger language plpgsql security definer as
					$$ begin insert into written (token) values (2); return null; end $$;
				create trigger logs after insert on nothing for each statement execute function logs()`)
			c := s.connect("app")
			first := s.ready(c, "take('orders', 'host-1', 1)")
			s.ready(c, "take('orders', 'host-2', 2)")
			before := s.written()
			_, err := c.Exec(s.ctx, write, first.Pass)
			if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42601" && name == "MERGE" {
				t.Skip("no MERGE before Postgres 15")
			}
			if err != nil || s.written() == before {
				t.Errorf("a stale pass did not write: %v; docs/sql.md may show this form", err)
			}
		})
	}
}

func TestAPoolerInStatementModeRefusesBegin(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := pgtest.Connect(t, s.pooler("statement"))
	_, err := c.Exec(s.ctx, "begin")
	s.fails(err, "08P01")
}

// written returns all rows of the table written, with their versions.
func (s *stage) written() (rows string) {
	s.Helper()
	if err := s.connect("postgres").QueryRow(s.ctx, "select coalesce(string_agg(xmin || ' ' || n || "+
		"' ' || token, ', '), '') from written").
		Scan(&rows); err != nil {
		s.Fatal(err)
	}
	return rows
}
