package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
)

// reading starts a guard whose clients may read without a token. The database has functions that
// write, and that change settings, in every way that a reader might use.
func reading(t *testing.T) *guarded {
	t.Helper()
	return readingIn(t, fencedBy(t, setup{Options: Options{ReadOnly: true}}))
}

// readingIn creates the functions.
func readingIn(t *testing.T, g *guarded) *guarded {
	t.Helper()
	sql(t, g.pg.URL("postgres", g.database), `
	    create function writes() returns integer language plpgsql as
	      $$ begin insert into ledger (note) values ('written'); return 1; end $$;
	    create function constant() returns integer language plpgsql immutable as
	      $$ begin perform writes(); return 1; end $$;
	    create function definer() returns integer language plpgsql security definer as
	      $$ begin perform writes(); return 1; end $$;
	    create function switches() returns text language sql as
	      $$ select set_config('default_transaction_read_only', 'off', false) $$;
	    create function switches_in_transaction() returns text language sql as
	      $$ select set_config('default_transaction_read_only', 'off', true) $$;
	    create function plans(setting text, value text) returns text language plpgsql immutable as
	      $$ begin return set_config(setting, value, false); end $$;
	    create domain turned_off text check (plans(value, 'off') <> '');
	    create function switches_own() returns text language sql as
	      $$ select set_config('transaction_read_only', 'off', false) $$;
	    create function scoped() returns integer language plpgsql set default_transaction_read_only = off as
	      $$ begin return writes(); end $$;
	    create procedure commits() language plpgsql as
	      $$ begin perform switches(); commit; perform writes(); commit; end $$;
	    create view written as select writes();
	    create table copied (a integer);
	    grant all on copied to app; grant select on written to app; grant create on schema public to app`)
	return g
}

// reader connects without a token.
func (g *guarded) reader() *pgx.Conn {
	g.t.Helper()
	return g.connectTo(fmt.Sprintf("postgres://app@%s/%s", g.Addr, g.database))
}

func (g *guarded) connectTo(url string) *pgx.Conn {
	g.t.Helper()
	c, err := pgx.Connect(g.t.Context(), url)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// state describes everything in the database that a reader must not change.
func (g *guarded) state() string {
	g.t.Helper()
	c := g.connectTo(g.pg.URL("postgres", g.database))
	defer c.Close(context.Background())
	var s string
	err := c.QueryRow(g.t.Context(), `select concat_ws(' ',
	    (select count(*) from ledger), (select count(*) from copied), (select last_value from ledger_n_seq),
	    (select count(*) from pg_class), (select count(*) from pg_proc), (select count(*) from pg_prepared_xacts),
	    (select count(*) from pg_db_role_setting), (select string_agg(relacl::text, ',') from pg_class
	       where relname in ('ledger', 'copied')))`).Scan(&s)
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

func TestASessionWithoutATokenReads(t *testing.T) {
	g := reading(t)
	sql(t, g.pg.URL("postgres", g.database), "insert into ledger (note) values ('a''b'), ('c\\d')")
	c := g.reader()
	for _, query := range []string{
		"select count(*) from ledger", "with a as (select 1) select * from a", "values (1), (2)", "table ledger",
		"(select 1) union (select 2)", "explain select * from ledger", "explain (analyze, costs off) select 1",
		"explain analyze verbose select 1", "show search_path", "set search_path to public, \"Other\"",
		"reset search_path", "set local time zone 'UTC'", "set session characteristics as transaction read only",
		"begin; select 1; commit", "begin isolation level repeatable read read only", "savepoint a",
		"declare c cursor for select * from ledger", "fetch 1 from c", "release a", "commit",
		"prepare q (integer) as select $1", "execute q (1)", "deallocate q", "copy ledger to stdout",
		"copy (select 1) to stdout", "listen news", "unlisten *", "select 'a;b', $$ ; drop table x $$, \"note\" from ledger",
		"/* insert */ select 1 -- update", "select note ~ '\\d' from ledger", "select E'it\\'s', 1", "reset all",
		"select a into_ from (select 1 as a) x", "discard all", "", ";", "rollback", "end",
	} {
		if _, err := c.PgConn().Exec(t.Context(), query).ReadAll(); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	var n int
	tx, err := c.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := tx.QueryRow(t.Context(), "select count(*) from ledger where note <> $1", "x").Scan(&n); err != nil || n != 2 {
			t.Errorf("a prepared query: %d, %v", n, err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	b := &pgx.Batch{}
	b.Queue("select 1")
	b.Queue("select count(*) from ledger where n > $1", 0)
	if err := c.SendBatch(t.Context(), b).Close(); err != nil {
		t.Errorf("a pipeline: %v", err)
	}
	if _, err := c.Exec(t.Context(), "insert into ledger (note) values ($1)", "x"); code(err) != "RF002" {
		t.Errorf("a write: %v", err)
	}
	if err := c.QueryRow(t.Context(), "select 1").Scan(&n); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

// However long its query takes, a reader gives way to a leader.
func TestReadersWithoutATokenDoNotKeepALeaderOut(t *testing.T) {
	g := reading(t)
	tight := g.another(setup{
		Options: Options{ReadOnly: true},
		limit:   func(s *guard.Server) { s.MaxUnadmitted, s.Grace = 2, 100*time.Millisecond },
	})
	var all []*readerWire
	for range 2 {
		w := tight.readerWire(nil)
		w.Send(&pgproto3.Query{String: "select pg_sleep(60)"})
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	c, err := tight.dial(5)
	if err != nil {
		t.Fatalf("the leader: %v", err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	ended := make(chan bool, len(all))
	for _, w := range all {
		go func() {
			_, ready := w.codes()
			ended <- !ready
		}()
	}
	select {
	case gone := <-ended:
		if !gone {
			t.Error("a query of a minute has ended by itself")
		}
	case <-time.After(30 * time.Second):
		t.Error("no reader has given way")
	}
}

// A refusal comes in its place, and aborts what an error of the server would abort.
func TestARefusalWithoutATokenComesInItsPlace(t *testing.T) {
	g := reading(t)
	w := g.readerWire(nil)
	for _, step := range []struct {
		text   string
		want   string
		status byte
	}{
		{"begin", "[]", 'T'}, {"insert into ledger (note) values ('x')", "[RF002]", 'E'}, {"select 1", "[25P02]", 'E'},
		{"delete from ledger", "[RF002]", 'E'}, {"commit", "[]", 'I'}, {"select 1", "[]", 'I'},
	} {
		w.Send(&pgproto3.Query{String: step.text})
		_ = w.Flush()
		var codes []string
		for {
			m, err := w.Receive()
			if err != nil {
				t.Fatalf("%s: %v", step.text, err)
			}
			if e, ok := m.(*pgproto3.ErrorResponse); ok {
				codes = append(codes, e.Code)
				if e.Code == "RF002" && (e.Severity != "ERROR" || e.Hint == "" || e.Detail == "") {
					t.Errorf("%s: %+v", step.text, e)
				}
			}
			if z, ok := m.(*pgproto3.ReadyForQuery); ok {
				if fmt.Sprint(codes) != step.want || z.TxStatus != step.status {
					t.Errorf("%s: %v, status %c", step.text, codes, z.TxStatus)
				}
				break
			}
		}
	}
	// All at once: each batch has its answer.
	for _, text := range []string{"select 1", "drop table ledger", "select 2"} {
		w.Send(&pgproto3.Query{String: text})
	}
	for i, want := range []string{"[]", "[RF002]", "[]"} {
		if codes, ready := w.codes(); fmt.Sprint(codes) != want || !ready {
			t.Errorf("batch %d: %v", i, codes)
		}
	}
}

// What the client asks for at its login does not count.
func TestTheLoginOfASessionWithoutATokenCannotMakeItWrite(t *testing.T) {
	g := reading(t)
	sql(t, g.pg.URL("postgres", g.database), fmt.Sprintf(
		"alter database %s set default_transaction_read_only = off; alter role app in database %s set default_transaction_read_only = off",
		g.database, g.database))
	before := g.state()
	for _, params := range []map[string]string{
		{"default_transaction_read_only": "off"}, {"Default_Transaction_Read_Only": "off"},
		{"transaction_read_only": "off"}, {"options": "-c default_transaction_read_only=off"},
		{"options": "-c transaction_read_only=off --default-transaction-read-only=off"},
		{"options": "-c standard_conforming_strings=off"}, {},
	} {
		w := g.readerWire(params)
		for range 2 {
			w.Send(&pgproto3.Query{String: "select writes()"})
			if codes, _ := w.codes(); fmt.Sprint(codes) != "[25006]" {
				t.Errorf("%v: %v", params, codes)
			}
		}
		if after := g.state(); after != before {
			t.Fatalf("%v has changed the database: %s, before %s", params, after, before)
		}
	}
	sql(t, g.pg.URL("postgres", g.database), `do $$ begin
	    if not exists (select from pg_roles where rolname = 'operator') then
	      create role operator superuser login; alter role operator set role = app;
	      create role heir login; grant postgres to heir;
	    end if;
	  end $$`)
	for name, params := range map[string]map[string]string{
		"replication": {"replication": "database"}, "a superuser": {"user": "postgres"},
		"a superuser that sets a role":   {"user": "postgres", "options": "-c role=app"},
		"a superuser that is another":    {"user": "postgres", "options": "-c session_authorization=app"},
		"a superuser with a setting":     {"user": "operator"},
		"a role that can be a superuser": {"user": "heir"},
		"another database":               {"database": "postgres"}, "an encoding": {"client_encoding": "SJIS"},
	} {
		w := g.readerWire(params)
		w.Send(&pgproto3.Query{String: "select 1"})
		if _, ready := w.codes(); ready {
			t.Errorf("%s: admitted", name)
		}
	}
}

// What a role may set can change after its login.
func TestASessionWithoutATokenThatBecomesASuperuserIsEnded(t *testing.T) {
	g := reading(t)
	sql(t, g.pg.URL("postgres", g.database), "create role promoted login")
	defer sql(t, g.pg.URL("postgres", g.database), "drop role promoted")
	c := g.connectTo(fmt.Sprintf("postgres://promoted@%s/%s", g.Addr, g.database))
	sql(t, g.pg.URL("postgres", g.database), "grant postgres to promoted")
	_, err := c.PgConn().Exec(t.Context(), "set role postgres").ReadAll()
	wantCode(t, err, "RF002")
	if c.Ping(t.Context()) == nil {
		t.Error("the session goes on")
	}
}

// The server stays as fast as it was for everybody else, and a shutdown ends readers.
func TestAShutdownEndsSessionsWithoutATokenWhenTheyAreIdle(t *testing.T) {
	g := reading(t)
	idle, open := g.readerWire(nil), g.readerWire(nil)
	open.Send(&pgproto3.Query{String: "begin"})
	open.codes()
	stopped := make(chan struct{})
	go func() { defer close(stopped); g.Stop() }()
	if codes, ready := idle.codes(); ready || fmt.Sprint(codes) != "[57P01]" {
		t.Errorf("the idle session: %v", codes)
	}
	open.Send(&pgproto3.Query{String: "select 1"})
	if codes, ready := open.codes(); !ready || len(codes) > 0 {
		t.Errorf("a transaction that is open: %v", codes)
	}
	open.Send(&pgproto3.Query{String: "commit"})
	if codes, ready := open.codes(); !ready || len(codes) > 0 {
		t.Errorf("its end: %v", codes)
	}
	if codes, ready := open.codes(); ready || fmt.Sprint(codes) != "[57P01]" {
		t.Errorf("after it: %v", codes)
	}
	<-stopped
}
