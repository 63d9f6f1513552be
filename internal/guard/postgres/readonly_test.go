package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
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
	g := fencedBy(t, setup{Options: Options{ReadOnly: true}})
	sql(t, g.pg.URL("postgres", g.database), `
	    create function writes() returns integer language plpgsql as
	      $$ begin insert into ledger (note) values ('written'); return 1; end $$;
	    create function constant() returns integer language plpgsql immutable as
	      $$ begin perform writes(); return 1; end $$;
	    create function definer() returns integer language plpgsql security definer as
	      $$ begin perform writes(); return 1; end $$;
	    create function switches() returns text language sql as
	      $$ select set_config('default_transaction_read_only', 'off', false) $$;
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

// Every way to write that is known, with what becomes of it: a refusal of the guard (RF002), or the
// server's own (25006, read-only transaction). "ended" means that the session is ended before its next
// batch, and "" that the statement succeeds and does no harm.
var holes = []struct {
	batches string // separated by |
	want    string // of the last one
}{
	{"insert into ledger (note) values ('x')", "RF002"},
	{"select writes()", "25006"},
	{"select definer()", "25006"},
	{"select constant()", "25006"},
	{"select scoped()", "25006"},
	{"select * from written", "25006"},
	{"with a as (insert into ledger (note) values ('x') returning 1) select * from a", "RF002"},
	{"with a as (delete from ledger returning 1) select * from a", "25006"},
	{"select nextval('ledger_n_seq')", "25006"},
	{"select * from ledger for update", "25006"},
	{"begin read write", "RF002"},
	{"begin transaction isolation level serializable, read /* */ write", "RF002"},
	{"start transaction read write", "RF002"},
	{"begin | set transaction read write", "RF002"},
	{"set transaction_read_only = off", "RF002"},
	{"set \"transaction_read_only\" = off", "RF002"},
	{"set U&\"transaction_read\\005Fonly\" = off", "RF002"},
	{"set local transaction_read_only to default", "RF002"},
	{"set Default_Transaction_Read_Only = off", "RF002"},
	{"set session session characteristics as transaction read write", "RF002"},
	{"set local session characteristics as transaction read write", "RF002"},
	{"set session characteristics as transaction read write", "RF002"},
	{"reset transaction_read_only", "RF002"},
	{"reset \"transaction_read_only\"", "RF002"},
	{"select set_config('transaction_read_only', 'off', false)", "25001"},
	{"select set_config('transaction_read_only', 'off', true); select writes()", "25001"},
	{"select switches_own()", "25001"},
	{"begin | savepoint a | select set_config('transaction_read_only', 'off', false)", "25001"},
	{"select set_config('default_transaction_read_only', 'off', false)", "ended"},
	{"select switches() | select writes()", "ended"},
	{"select switches(); select writes()", "25006"},
	{"select switches(); begin; select writes()", "25006"},
	{"select switches(); commit; select writes()", "RF002"},
	{"select switches(); rollback; select writes()", "RF002"},
	{"select switches(); end; select writes()", "RF002"},
	{"select switches(); abort; select writes()", "RF002"},
	{"begin; select switches(); commit and chain; select writes()", "RF002"},
	{"begin | select switches() | commit", "ended"},
	{"begin; select switches(); commit and chain | select writes()", "ended"},
	{"prepare a as select writes() | execute a", "25006"},
	{"prepare a as insert into ledger (note) values ('x')", "RF002"},
	{"prepare transaction 'a'", "RF002"},
	{"commit prepared 'a'", "RF002"},
	{"rollback /* */ prepared 'a'", "RF002"},
	{"do $$ begin perform switches(); commit; perform writes(); end $$", "RF002"},
	{"call commits()", "RF002"},
	{"select writes(); call commits()", "RF002"},
	{"explain analyze select writes()", "25006"},
	{"explain analyze insert into ledger (note) values ('x')", "RF002"},
	{"explain analyze create table a as select 1", "RF002"},
	{"explain analyze select 1 into a", "RF002"},
	{"explain (analyze) (select 1 into a)", "RF002"},
	{"explain (analyze) with b as (select 1) select * into a from b", "RF002"},
	{"explain analyze declare c cursor for select 1", "RF002"},
	{"select 1 into a", "RF002"},
	{"create table a (b integer)", "RF002"},
	{"create temp table a (b integer)", "RF002"},
	{"copy copied from stdin", "RF002"},
	{"copy (select 1) to program 'touch /tmp/a'", "RF002"},
	{"copy (select writes()) to stdout", "25006"},
	{"copy ledger to '/tmp/a'", "RF002"},
	{"notify news", "RF002"},
	{"vacuum ledger", "RF002"},
	{"analyze ledger", "RF002"},
	{"checkpoint", "RF002"},
	{"lock table ledger", "RF002"},
	{"alter role app set default_transaction_read_only = off", "RF002"},
	{"grant all on ledger to public", "RF002"},
	{"load 'x'", "RF002"},
	{"select ringfence.enter('orders', 1, 'a')", "RF007"},
	{"select query_to_xml('insert into copied values (1)', true, true, '')", "0A000"},
	{"select query_to_xml('explain analyze select 1 into a', true, true, '')", "0A000"},
	{"select query_to_xml('commit', true, true, '')", "22000"},
	{"select * from ts_stat('insert into copied values (1) returning null::tsvector')", "0A000"},
	{"declare c cursor with hold for select writes()", "25006"},
	{"begin; declare c cursor with hold for select writes() | commit", "25006"},

	// the same, and then a write in the next batch
	{"begin read write | select writes()", "25006"},
	{"start transaction isolation level serializable read write | select writes()", "25006"},
	{"begin | set transaction read write | rollback | begin | select writes()", "25006"},
	{"set session characteristics as transaction read write | select writes()", "25006"},
	{"set local session characteristics as transaction read write | select writes()", "25006"},
	{"set session session characteristics as transaction read write | select writes()", "25006"},
	{"set \"default_transaction_read_only\" = off | select writes()", "25006"},
	{"set U&\"default_transaction_read\\005Fonly\" = off | select writes()", "25006"},
	{"begin | set U&\"transaction_read\\005Fonly\" = off | rollback | select writes()", "25006"},
	{"begin | reset transaction_read_only | rollback | select writes()", "25006"},

	// strings and comments that hide statements
	{"select 1; /* /* */ " + hidden + " */ */", "RF002"},
	{"select 1; /* /* */ */ " + hidden, "RF002"},
	{"select 1 -- \n; " + hidden, "RF002"},
	{"select 1 --\r; " + hidden, "RF002"},
	{"select $a$ $b$ $a$; " + hidden + " -- $a$", "RF002"},
	{"select 1 as a$$; " + hidden + " -- $$", "RF002"},
	{"select $A$ $a$; " + hidden + " -- $A$", ""},
	{"select E'\\''; " + hidden + " --'", "RF002"},
	{"select e'\\\\'; " + hidden + " --'", "RF002"},
	{"select E'a'\n'\\''; " + hidden + " --'", "RF002"},
	{"select E'a' -- b\n '\\''; " + hidden + " --'", "RF002"},
	{"select \"a\"\"; select 1\", 1; " + hidden, "RF002"},
	{"select U&'\\' as a; " + hidden + " --'", "RF002"},
	{"select U&\"a\\005C\" from ledger; " + hidden + " --\"", "RF002"},
	{"set standard_conforming_strings = off | select '\\'' ; " + hidden + " --'", "ended"},
	{"set client_encoding = 'SJIS' | select E'\x95\\'; " + hidden + " --'", "ended"},
	{"set names 'GBK'", "ended"},
	{"select set_config('standard_conforming_strings', 'off', false)", "ended"},
	{"select 'a\\'; " + hidden + " --'", "RF002"},
	{"select 'a\\b'", ""},
	{"select 1.5e'\\''; " + hidden + " --'", "RF002"},
	{"select 1e5e'\\''; " + hidden + " --'", "RF002"},
	{"select 0x1e'\\'; " + hidden + " --'", "RF002"},
}

// hidden are statements that write if the guard does not see them.
const hidden = "commit; begin read write; insert into ledger default values; commit"

func TestEveryKnownWayToWriteWithoutATokenIsClosed(t *testing.T) {
	g := reading(t)
	before := g.state()
	for _, h := range holes {
		c := g.reader()
		var err error
		for _, batch := range strings.Split(h.batches, " | ") {
			_, err = c.PgConn().Exec(t.Context(), batch).ReadAll()
		}
		got := ""
		if err != nil {
			got = code(err)
		}
		if h.want == "ended" {
			if c.Ping(t.Context()) == nil {
				t.Errorf("%s: the session goes on", h.batches)
			}
		} else if got != h.want {
			t.Errorf("%s: %q (%v), want %q", h.batches, got, err, h.want)
		}
		_ = c.Close(t.Context())
		if after := g.state(); after != before {
			t.Fatalf("%s has changed the database: %s, before %s", h.batches, after, before)
		}
	}
}

// readerWire is a client that speaks the protocol message by message.
type readerWire struct {
	t    *testing.T
	conn net.Conn
	*pgproto3.Frontend
}

func (g *guarded) readerWire(params map[string]string) *readerWire {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.Addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	w := &readerWire{g.t, conn, pgproto3.NewFrontend(conn, conn)}
	all := map[string]string{"user": "app", "database": g.database}
	for k, v := range params {
		all[k] = v
	}
	w.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: all})
	w.codes()
	return w
}

// codes flushes, reads up to ReadyForQuery or the end, and returns the codes of the errors on the way.
func (w *readerWire) codes() (codes []string, ready bool) {
	_ = w.Flush()
	for {
		m, err := w.Receive()
		if err != nil {
			return codes, false
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			codes = append(codes, m.Code)
		case *pgproto3.ReadyForQuery:
			return codes, true
		}
	}
}

// runs sends Parse, Bind and Execute of a statement.
func (w *readerWire) runs(name, text string) {
	w.Send(&pgproto3.Parse{Name: name, Query: text})
	w.executes(name)
}

// executes executes a prepared statement.
func (w *readerWire) executes(name string) {
	w.Send(&pgproto3.Bind{PreparedStatement: name})
	w.Send(&pgproto3.Execute{})
}

// prepares prepares a statement in a batch of its own.
func (w *readerWire) prepares(name, text string) {
	w.Send(&pgproto3.Parse{Name: name, Query: text})
	w.Send(&pgproto3.Sync{})
	w.codes()
}

// writesBehind executes a prepared statement between one that lifts the protection and one that
// writes.
func (w *readerWire) writesBehind(name string) {
	w.runs("", "select switches()")
	w.executes(name)
	w.runs("", "select writes()")
}

func TestThePipelineOfASessionWithoutATokenCannotWrite(t *testing.T) {
	g := reading(t)
	before := g.state()
	for name, row := range map[string]struct {
		send func(w *readerWire)
		want string
	}{
		"a write": {func(w *readerWire) { w.runs("", "insert into ledger (note) values ('x')") }, "RF002"},
		"behind a commit": {func(w *readerWire) {
			w.runs("", "select switches()")
			w.runs("", "commit")
			w.runs("", "select writes()")
		}, "RF002 RF002"}, // the second one ends the session
		"behind a commit that was prepared before": {func(w *readerWire) {
			w.prepares("c", "commit")
			w.writesBehind("c")
		}, "RF002 RF002"},
		"behind a portal that commits": {func(w *readerWire) {
			w.Send(&pgproto3.Parse{Query: "commit"})
			w.Send(&pgproto3.Bind{DestinationPortal: "p"})
		}, "RF002"},
		"a name that a failed Parse would give to another statement": {func(w *readerWire) {
			w.prepares("c", "commit")
			w.prepares("c", "select 1")
			w.writesBehind("c")
		}, "RF002 RF002"},
		"EXECUTE of a COMMIT": {func(w *readerWire) {
			w.Send(&pgproto3.Parse{Name: "c", Query: "commit"})
			w.runs("", "select switches()")
			w.runs("", "execute c")
			w.runs("", "select writes()")
		}, "RF002"},
		"behind DISCARD": {func(w *readerWire) {
			w.runs("", "discard temp")
			w.runs("", "select writes()")
		}, "RF002"},
		"a changed meaning of backslashes": {func(w *readerWire) {
			w.runs("", "select set_config('standard_conforming_strings', 'off', false)")
			w.runs("", "select '\\''")
		}, "RF002"},
		"two settings in one pipeline": {func(w *readerWire) {
			w.runs("", "select switches()")
			w.runs("", "select writes()")
		}, "25006"},
		"while it is planned": {func(w *readerWire) { w.runs("", "select constant()") }, "25006"},
		"a function call": {func(w *readerWire) {
			w.Send(&pgproto3.FunctionCall{Function: 1})
		}, "RF002"},
		"two statements in a Parse": {func(w *readerWire) { w.runs("", "select 1; insert into ledger (note) values ('x')") }, "RF002"},
		"COPY":                      {func(w *readerWire) { w.runs("", "copy copied from stdin") }, "RF002"},
	} {
		w := g.readerWire(nil)
		row.send(w)
		if !strings.Contains(name, "function call") {
			w.Send(&pgproto3.Sync{})
		}
		codes, _ := w.codes()
		if strings.Join(codes, " ") != row.want {
			t.Errorf("%s: %v, want %s", name, codes, row.want)
		}
		w.Send(&pgproto3.Query{String: "select 1"})
		w.codes()
		if after := g.state(); after != before {
			t.Fatalf("%s has changed the database: %s, before %s", name, after, before)
		}
	}
}

// The server would not answer a query that comes in the middle of a pipeline which has failed.
func TestAQueryInAPipelineWithoutATokenEndsTheSession(t *testing.T) {
	g := reading(t)
	w := g.readerWire(nil)
	w.runs("", "insert into ledger (note) values ('x')")
	w.Send(&pgproto3.Query{String: "select 1"})
	if codes, ready := w.codes(); ready || !strings.Contains(fmt.Sprint(codes), "08P01") {
		t.Errorf("%v, ready %v", codes, ready)
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
	for name, params := range map[string]map[string]string{
		"replication": {"replication": "database"}, "a superuser": {"user": "postgres"},
		"another database": {"database": "postgres"}, "an encoding": {"client_encoding": "SJIS"},
	} {
		w := g.readerWire(params)
		w.Send(&pgproto3.Query{String: "select 1"})
		if _, ready := w.codes(); ready {
			t.Errorf("%s: admitted", name)
		}
	}
}

// Random batches from a grammar of nasty statements. Afterwards nothing in the database has changed.
func TestNoRandomBatchWithoutATokenWrites(t *testing.T) {
	pieces := []string{
		"select writes()", "select switches()", "select switches_own()", "select constant()", "select 1", "commit", "begin",
		"rollback", "end", "abort", "begin read write", "set transaction read write", "set transaction_read_only = off",
		"set default_transaction_read_only = off", "set session characteristics as transaction read write",
		"insert into ledger (note) values ('x')", "call commits()", "do $$begin perform switches(); commit; perform writes(); end$$",
		"execute s0", "execute s1", "prepare s1 as select writes()", "deallocate all", "discard all", "discard temp", "reset all",
		"savepoint a", "rollback to a", "release a", "commit and chain", "rollback and chain", "explain analyze select writes()",
		"explain analyze select 1 into t", "copy (select writes()) to stdout", "copy copied from stdin", "declare c cursor with hold for select writes()",
		"fetch all from c", "close all", "set standard_conforming_strings = off", "select '\\'", "select '\\'' --'", "select E'\\''",
		"select $a$;$a$", "/*", "*/", "--\n", "'", "\"", "$$", "(", ")", "reset transaction_read_only", "set local role app",
		"select set_config('transaction_read_only','off',true)", "table written", "with a as (delete from ledger returning 1) table a",
		"start transaction", "prepare transaction 'x'", "set constraints all immediate", "U&\"a\"", "select 1 into t2",
	}
	g := reading(t)
	before := g.state()
	sessions := 150
	if testing.Short() {
		sessions = 30
	}
	for seed := range uint64(sessions) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		w, log := g.readerWire(nil), []string{}
		for range 1 + rnd.IntN(5) {
			var text []string
			for range 1 + rnd.IntN(4) {
				text = append(text, pieces[rnd.IntN(len(pieces))])
			}
			if rnd.IntN(2) == 0 {
				query := strings.Join(text, []string{"; ", ";", " ; -- \n", " "}[rnd.IntN(4)])
				log = append(log, "query "+query)
				w.Send(&pgproto3.Query{String: query})
			} else {
				for _, piece := range text {
					name := []string{"", "s0", "s1"}[rnd.IntN(3)]
					log = append(log, "runs "+name+": "+piece)
					if rnd.IntN(4) > 0 {
						w.Send(&pgproto3.Parse{Name: name, Query: piece})
					}
					w.Send(&pgproto3.Bind{PreparedStatement: name, DestinationPortal: []string{"", "p"}[rnd.IntN(2)]})
					w.Send(&pgproto3.Execute{Portal: []string{"", "p"}[rnd.IntN(2)]})
					if rnd.IntN(4) == 0 {
						w.Send(&pgproto3.Flush{})
					}
				}
				w.Send(&pgproto3.Sync{})
			}
			if rnd.IntN(2) == 0 {
				if _, ready := w.codes(); !ready {
					break
				}
			}
		}
		w.Send(&pgproto3.Terminate{})
		w.codes()
		_ = w.conn.Close()
		if after := g.state(); after != before {
			t.Fatalf("seed %d has changed the database: %s, before %s\n%s", seed, after, before, strings.Join(log, "\n"))
		}
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

func FuzzTheLexerNeverPanics(f *testing.F) {
	for _, h := range holes {
		f.Add(h.batches)
	}
	f.Fuzz(func(t *testing.T, text string) { judge(text) })
}
