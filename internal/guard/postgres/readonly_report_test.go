package postgres

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// batch encodes messages.
func batch(all ...pgproto3.FrontendMessage) (b []byte) {
	for _, m := range all {
		var err error
		if b, err = m.Encode(b); err != nil {
			panic(err)
		}
	}
	return b
}

// runs are the messages that run a statement, with the unnamed statement and portal.
func runs(text string) []pgproto3.FrontendMessage {
	return []pgproto3.FrontendMessage{
		&pgproto3.Parse{Query: text}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{},
	}
}

// pieces are the messages that run a statement in pieces of two rows.
func pieces(text string, n int) []pgproto3.FrontendMessage {
	all := []pgproto3.FrontendMessage{&pgproto3.Parse{Query: text}, &pgproto3.Bind{DestinationPortal: "p"}}
	for range n {
		all = append(all, &pgproto3.Execute{Portal: "p", MaxRows: 2})
	}
	return append(all, &pgproto3.Execute{Portal: "p"}, &pgproto3.Close{ObjectType: 'P', Name: "p"})
}

func synced(parts ...[]pgproto3.FrontendMessage) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, batch(p...)...)
	}
	return append(b, batch(&pgproto3.Sync{})...)
}

const fiveRows = "select generate_series(1, 5)"

func flush() []pgproto3.FrontendMessage { return []pgproto3.FrontendMessage{&pgproto3.Flush{}} }

// batches are dialogues in which the guard sends a Sync of its own, or might.
var batches = map[string][][]byte{
	"a pipeline": {synced(runs("select 1"), runs("select 2"), runs("show timezone"), runs(""))},
	"an error in a pipeline": {
		synced(runs("select 1"), runs("select 1/0"), runs("select 2"), runs("select 3")), synced(runs("select 4")),
	},
	"an error at its end":  {synced(runs("select 1"), runs("select 1/0")), synced(runs("select 4"))},
	"an error of a Parse":  {synced(runs("select 1"), runs("select from from"), runs("select 2"))},
	"an error of a Bind":   {synced(runs("select 1"), none, runs("select 2"))},
	"a broken Execute":     {batch(runs("select 1")[:2]...), encode('E', "\x00\x00\x00"), synced(runs("select 2"))},
	"BEGIN and END in one": {synced(runs("begin"), runs("select 1"), runs("end"), runs("select 2"))},
	"a failed transaction": {
		synced(runs("begin"), runs("select 1/0"), runs("select 1")), synced(runs("select 2")),
		synced(runs("rollback"), runs("select 3")),
	},
	"a transaction over many batches": {
		synced(runs("begin")), synced(runs("select 1"), runs("select 2")), synced(runs("end")),
	},
	"rows in pieces": {synced(pieces(fiveRows, 1)), synced(pieces(fiveRows, 2))},
	"a statement behind pieces": {
		synced(pieces(fiveRows, 1), runs("select 2")), synced(pieces(fiveRows, 2), runs("select 2")),
	},
	"a statement between pieces": {
		synced(pieces(fiveRows, 1)[:3], runs("show timezone")),
		synced(runs("begin"), pieces(fiveRows, 1)[:3], runs("select 2"), pieces(fiveRows, 1)[3:], runs("end")),
	},
	"an error in pieces":      {synced(pieces("select 2/(3-n) from generate_series(1, 5) n", 2), runs("select 2"))},
	"Close behind Execute":    {synced(runs("select 1"), closed, flush(), closed)},
	"Describe behind Execute": {synced(runs("select 1"), described)},
	"Flush everywhere":        {synced(runs("select 1"), flush(), runs("select 2"), flush(), flush())},
	"COPY":                    {synced(runs("copy (values (1), (2)) to stdout"), runs("select 1"))},
	"backslashes": {
		synced(runs(`select 'a\b'`), runs(`select E'a\'b'`)), batch(&pgproto3.Query{String: `select '\'`}),
	},
	"letters":    {synced(runs("select 'é'"), runs("select 'ü' as ä"))},
	"many Syncs": {synced(), synced(), synced(runs("select 1")), synced()},
	"a setting": {
		synced(runs("set application_name = 'other'"), runs("select current_setting('application_name')")),
	},
	"a query": {synced(runs("select 1"), runs("select 2")), batch(&pgproto3.Query{String: "select 1; select 2"})},
}

// Messages in between.
var (
	closed    = []pgproto3.FrontendMessage{&pgproto3.Close{ObjectType: 'P'}, &pgproto3.Close{ObjectType: 'S'}}
	described = []pgproto3.FrontendMessage{&pgproto3.Describe{ObjectType: 'S'}}
	none      = []pgproto3.FrontendMessage{&pgproto3.Bind{PreparedStatement: "none"}}
)

// lines are the numbers of lines in the server's code. From Postgres 18 on, a pipeline that has gone on
// behind its first Execute counts as a transaction block, so a COMMIT that nobody has opened gets the
// same warning from another line.
var lines = regexp.MustCompile(`\\x00L[0-9]+`)

// sameAsDirect compares the answers through the guard with those of the server. Changed settings are
// reported earlier through the guard.
func (g *guarded) sameAsDirect(t *testing.T, sent [][]byte) {
	t.Helper()
	login := []string{"user", "app", "database", g.database}
	through, direct := dialWire(t, g.Addr), dialWire(t, g.pg.Addr())
	through.login(login...)
	direct.login(append(login, "options", "-c default_transaction_read_only=on")...)
	got := lines.ReplaceAllString(through.dialogue(sent, "S"), "")
	want := lines.ReplaceAllString(direct.dialogue(sent, "S"), "")
	if got != want {
		t.Errorf("direct:%s\nthrough the guard:%s", want, got)
	}
}

func TestASessionWithoutATokenHasTheSameAnswersAsWithoutAGuard(t *testing.T) {
	g := reading(t)
	all := maps.Clone(batches)
	for _, name := range []string{
		"simple queries", "an error in the middle", "settings that are reported", "an extended query",
		"a portal in pieces", "a pipeline with an error", "queries in one go", "a query byte by byte",
		"copy out", "a flush", "binary results", "a goodbye",
	} {
		all[name] = dialogues[name]
	}
	for name, sent := range all {
		t.Run(name, func(t *testing.T) { g.sameAsDirect(t, sent) })
	}
}

// Random batches of an honest client: it executes a portal in the batch that binds it, and opens a
// transaction for more.
func TestHonestBatchesWithoutATokenHaveTheSameAnswersAsWithoutAGuard(t *testing.T) {
	g := reading(t)
	units := [][]pgproto3.FrontendMessage{
		runs("select 1"), runs("select 1/0"), runs("select from from"), runs(""), runs("show timezone"),
		runs(`select 'a\b'`), runs("select 'é'"), runs("values (1), (2)"), runs("explain (costs off) select 1"),
		runs("begin"), runs("commit"), runs("rollback"), runs("copy (select 1) to stdout"),
		pieces(fiveRows, 1), pieces(fiveRows, 2), pieces("select 2/(3-n) from generate_series(1, 5) n", 2),
		flush(), closed, described, none,
		{&pgproto3.Parse{Name: "s", Query: "select $1::int"}}, {&pgproto3.Close{ObjectType: 'S', Name: "s"}},
		{&pgproto3.Bind{PreparedStatement: "s", Parameters: [][]byte{[]byte("5")}}, &pgproto3.Execute{}},
		{&pgproto3.Sync{}}, {&pgproto3.Sync{}, &pgproto3.Query{String: "select 1; select 2"}},
		{&pgproto3.Sync{}, &pgproto3.Query{String: "select 1; select 1/0; select 2"}},
	}
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		var sent [][]byte
		for range 1 + rnd.IntN(12) {
			sent = append(sent, batch(units[rnd.IntN(len(units))]...))
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { g.sameAsDirect(t, append(sent, synced())) })
	}
}

// What drivers send for one statement costs no message more.
func TestOneStatementWithoutATokenReachesTheServerAsItWasSent(t *testing.T) {
	direct := reading(t)
	tap, control := tapBefore(t, direct.pg, direct.database)
	g := direct.another(setup{Options: Options{ReadOnly: true}, control: control})
	w := dialWire(t, g.Addr)
	w.login("user", "app", "database", g.database)
	before := len(tap.sentBy("app")[0])
	var all []byte
	for _, sent := range [][]byte{
		synced(runs("select 1")),
		synced(runs("select 1"), closed),
		synced(runs("select 1"), flush()),
		synced(closed, runs("select 1")),
		synced(pieces(fiveRows, 0)[:3]),
		batch(&pgproto3.Query{String: "select 1"}),
	} {
		w.send(sent)
		w.until("Z")
		all = append(all, sent...)
	}
	if got := tap.sentBy("app")[0][before:]; !bytes.Equal(got, all) {
		t.Errorf("the client has sent\n%q, the guard\n%q", all, got)
	}
}

// A client that reads rows in pieces waits for each piece before it asks for the next one.
func TestAReaderWithoutATokenWaitsForEachPiece(t *testing.T) {
	g := reading(t)
	w := g.readerWire(nil)
	w.Send(&pgproto3.Parse{Query: fiveRows})
	w.Send(&pgproto3.Bind{DestinationPortal: "p"})
	answers := ""
	for range 3 {
		w.Send(&pgproto3.Execute{Portal: "p", MaxRows: 2})
		w.Send(&pgproto3.Flush{})
		answers += w.untilExecuted() + " "
	}
	w.Send(&pgproto3.Sync{})
	if codes, ready := w.codes(); answers != "2s 2s 1C " || len(codes) > 0 || !ready {
		t.Errorf("%q, %v, ready %v", answers, codes, ready)
	}
}

// untilExecuted returns how many rows come, and how they end.
func (w *readerWire) untilExecuted() string {
	w.t.Helper()
	_ = w.Flush()
	for rows := 0; ; {
		m, err := w.Receive()
		switch m := m.(type) {
		case *pgproto3.DataRow:
			rows++
		case *pgproto3.PortalSuspended:
			return fmt.Sprint(rows, "s")
		case *pgproto3.CommandComplete:
			return fmt.Sprint(rows, "C")
		case *pgproto3.ErrorResponse:
			return m.Code
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// What docs/postgres.md says is different: the guard's Sync ends a transaction that nobody has begun.
func TestAPortalWithoutATokenEndsWithTheNextExecuteOutsideOfATransaction(t *testing.T) {
	g := reading(t)
	for begin, want := range map[string]string{"": "[34000]", "begin": "[]"} {
		w := g.readerWire(nil)
		w.runs("", begin)
		w.prepares("s", "select 1")
		for _, portal := range []string{"a", "b"} {
			w.Send(&pgproto3.Bind{DestinationPortal: portal, PreparedStatement: "s"})
		}
		for _, portal := range []string{"a", "b"} {
			w.Send(&pgproto3.Execute{Portal: portal})
		}
		w.Send(&pgproto3.Sync{})
		if codes, ready := w.codes(); fmt.Sprint(codes) != want || !ready {
			t.Errorf("after %q: %v, ready %v", begin, codes, ready)
		}
	}
}
