package postgres

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// nastyTexts are statements, and parts of some, by what they are for.
var nastyTexts = [][]string{
	lifts: {
		"select switches()", "select switches() from generate_series(1, 3)", "copy (select switches()) to stdout",
		"select plans('default_transaction_read_only', 'off')", "select switches_in_transaction()",
		"select '{default_transaction_read_only}'::turned_off[]",
		"declare c cursor with hold for select switches()",
		"select set_config('standard_conforming_strings', 'off', false) from generate_series(1, 3)",
	},
	ends: {
		"commit", "commit", "commit", "commit", "end", "rollback", "commit and chain", "rollback and chain",
		"execute s0", "discard all", "select 1/0",
	},
	writes: {
		"select writes()", "select writes() from generate_series(1, 3)", "select definer()", "select constant()",
		"table written", "copy (select writes()) to stdout", "explain analyze select writes()",
		"declare d cursor with hold for select writes() from generate_series(1, 3)",
		makesTableWithBackslash,
	},
	reads: {
		"select 1", "select n from generate_series(1, 5) n", "", "select $1::int", "show timezone",
		"begin", "start transaction", "begin isolation level serializable",
		"savepoint a", "rollback to a", "release a", "set constraints all immediate", "set local role app",
		"fetch 1 from c", "fetch all from d", "fetch 1 from p", "move all in p", "close all",
		"prepare s1 as select writes()", "prepare s0 as select switches()", "deallocate all", "deallocate s0",
		"discard temp", "reset all",
		"set statement_timeout = 1", "select pg_sleep(0.002)", "reset statement_timeout",
	},
	setters: {
		"set client_encoding = 'LATIN1'", "set client_encoding = 'UTF8'", "set names 'SQL_ASCII'",
		"set names 'SJIS'", "select plans('client_encoding', 'LATIN1')",
		"select set_config('client_encoding', 'UTF8', false)",
		"select plans('standard_conforming_strings', 'off')", "set standard_conforming_strings = off",
		"select switches_own()", "select set_config('transaction_read_only', 'off', true)",
		"select '{transaction_read_only}'::turned_off[]",
	},
	refused: {
		"begin read write", "set transaction read write", "set transaction_read_only = off",
		"set transact\xefon_read_only = off", "set default_transaction_read_only = off",
		"set session characteristics as transaction read write", "reset transaction_read_only",
		"insert into ledger (note) values ('x')", "with a as (delete from ledger returning 1) table a",
		"call commits()", "do $$begin perform switches(); commit; perform writes(); end$$",
		"select 1 into t2", "explain analyze select 1 into t", "copy copied from stdin", "prepare transaction 'x'",
	},
	parts: {
		"select '\\'", "select '\\'' --'", "select E'\\''", "select E'\x95\\' --'", "select $a$;$a$",
		"/*", "*/", "--\n", "'", "\"", "$$", "(", ")", "U&\"a\"",
	},
}

// Kinds of texts.
const (
	lifts  = iota // the protection
	ends          // a transaction
	writes        // without the protection
	reads         // and what is harmless unless it comes with others
	setters
	refused
	parts
)

// nastyNames are one name, or two: that depends on the encoding, on the length, and on what the server
// has skipped.
var nastyNames = [][]string{
	{""}, {"s0", "s1"}, {"\xe9", "\u00e9"},
	{sixtyThree[1:], sixtyThree, sixtyThree + "x", sixtyThree + "y"},
}

var sixtyThree = strings.Repeat("a", 63)

// nasty is a hostile client that sends what chance says.
type nasty struct {
	*rand.Rand
	w   *readerWire
	log []string
}

func one[T any](r nasty, all []T) T { return all[r.IntN(len(all))] }

func (n *nasty) text() string { return one(*n, nastyTexts[n.IntN(len(nastyTexts))]) }

func (n *nasty) name() string { return one(*n, one(*n, nastyNames)) }

// fresh returns a name that is not used yet.
func (n *nasty) fresh() string { return fmt.Sprint("fresh", len(n.log)) }

func (n *nasty) portal() string { return one(*n, []string{"", "", "", "p"}) }

func (n *nasty) send(m pgproto3.FrontendMessage) {
	n.log = append(n.log, fmt.Sprintf("%T %+v", m, m))
	n.w.Send(m)
}

// query sends a query of some statements.
func (n *nasty) query() {
	var all []string
	for range 1 + n.IntN(4) {
		all = append(all, n.text())
	}
	n.send(&pgproto3.Query{String: strings.Join(all, one(*n, []string{"; ", ";", " ; -- \n", " "}))})
}

// run sends the messages that run a statement, nearly.
func (n *nasty) run(name, text string) {
	if n.IntN(16) > 0 {
		n.send(&pgproto3.Parse{Name: name, Query: text})
	}
	n.execute(name, n.portal())
}

func (n *nasty) execute(name, portal string) {
	if n.IntN(16) > 0 {
		n.send(&pgproto3.Bind{PreparedStatement: name, DestinationPortal: portal})
	}
	for n.IntN(16) > 0 {
		n.send(&pgproto3.Execute{Portal: portal, MaxRows: one(*n, []uint32{0, 0, 0, 0, 1, 2})})
		if n.IntN(8) > 0 {
			break
		}
	}
}

// attack is what gets a write in, if the guard goes by names: a COMMIT that has two names, and a batch
// that lifts the protection, executes the COMMIT and writes. Chance disturbs it.
func (n *nasty) attack() {
	family := one(*n, nastyNames)
	n.perhaps(&pgproto3.Query{String: "set client_encoding = 'LATIN1'"})
	n.send(&pgproto3.Parse{Name: one(*n, family), Query: one(*n, nastyTexts[ends])})
	n.perhaps(&pgproto3.Bind{PreparedStatement: "none"}) // behind it everything is skipped
	n.perhaps(&pgproto3.Parse{Name: one(*n, family), Query: "select 1"})
	n.send(&pgproto3.Sync{})
	n.perhaps(&pgproto3.Query{String: "set client_encoding = 'UTF8'"})

	n.run(n.fresh(), one(*n, nastyTexts[lifts]))
	n.execute(one(*n, family), n.portal())
	n.run(n.fresh(), one(*n, nastyTexts[writes]))
}

func (n *nasty) perhaps(m pgproto3.FrontendMessage) {
	if n.IntN(2) == 0 {
		n.send(m)
	}
	if n.IntN(16) == 0 {
		n.odd()
	}
}

// odd sends something that comes in between.
func (n *nasty) odd() {
	n.send(one(*n, []pgproto3.FrontendMessage{
		&pgproto3.Flush{}, &pgproto3.Sync{}, &pgproto3.Sync{}, &pgproto3.Sync{},
		&pgproto3.Describe{ObjectType: 'S', Name: n.name()}, &pgproto3.Describe{ObjectType: 'P', Name: n.portal()},
		&pgproto3.Close{ObjectType: 'S', Name: n.name()}, &pgproto3.Close{ObjectType: 'P', Name: n.portal()},
		&pgproto3.CopyData{Data: []byte("1\n")}, &pgproto3.CopyDone{}, &pgproto3.CopyFail{Message: "x"},
		&pgproto3.Bind{PreparedStatement: "none"},
	}))
}

// batch sends a batch, and reports whether the session goes on.
func (n *nasty) batch() bool {
	switch n.IntN(4) {
	case 0:
		n.query()
	case 1:
		for range 1 + n.IntN(6) {
			n.run(one(*n, []string{n.name(), n.fresh()}), n.text())
			n.perhaps(&pgproto3.Flush{})
		}
	default:
		n.attack()
	}
	if n.IntN(20) > 0 {
		n.send(&pgproto3.Sync{})
	}
	_ = n.w.Flush()
	if n.IntN(3) > 0 {
		return true
	}
	n.send(&pgproto3.Sync{}) // so that there is an answer
	_, ready := n.w.codes()
	return ready
}

// Random batches from a grammar of nasty statements. Afterwards nothing in the database has changed.
func TestNoRandomBatchWithoutATokenWrites(t *testing.T) {
	g := reading(t)
	before := g.state()
	sessions := 400
	if testing.Short() {
		sessions = 30
	}
	for seed := range uint64(sessions) {
		n := &nasty{Rand: rand.New(rand.NewPCG(seed, 5)), w: g.readerWire(nil)}
		for range 2 + n.IntN(6) {
			if !n.batch() {
				break
			}
		}
		n.send(&pgproto3.Terminate{})
		n.w.codes()
		_ = n.w.conn.Close()
		if after := g.state(); after != before {
			t.Fatalf("seed %d has changed the database: %s, before %s\n%s", seed, after, before,
				strings.Join(n.log, "\n"))
		}
	}
}
