package postgres

import (
	"strings"
	"testing"
)

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
	{"select ringfence.enter('orders', 1, 'a')", "RF012"},
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
