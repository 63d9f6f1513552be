package postgres

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

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

// makesTableWithBackslash is a comment behind a string, or INTO behind a string, depending on
// standard_conforming_strings.
const makesTableWithBackslash = "explain analyze select '\\' /* ' as a into stolen --' */"

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
		}, "RF002"}, // which ends the session
		"behind a commit that was prepared before": {func(w *readerWire) {
			w.prepares("c", "commit")
			w.writesBehind("c")
		}, "RF002"},
		"behind a portal that commits": {func(w *readerWire) {
			w.prepares("off", "select switches()")
			w.prepares("write", "select writes()")
			w.Send(&pgproto3.Parse{Query: "commit"})
			w.Send(&pgproto3.Bind{DestinationPortal: "p"})
			w.Send(&pgproto3.Bind{PreparedStatement: "off", DestinationPortal: "o"})
			w.Send(&pgproto3.Execute{Portal: "o"})
			w.Send(&pgproto3.Execute{Portal: "p"})
			w.executes("write")
		}, "RF002"},
		"behind a commit while the statement before is not complete": {func(w *readerWire) {
			w.prepares("c", "commit")
			w.prepares("write", "select writes()")
			w.Send(&pgproto3.Parse{Query: "select switches() from generate_series(1, 2)"})
			w.Send(&pgproto3.Bind{DestinationPortal: "p"})
			w.Send(&pgproto3.Execute{Portal: "p", MaxRows: 1})
			w.Send(&pgproto3.Bind{PreparedStatement: "c"})
			w.Send(&pgproto3.Execute{MaxRows: 1})
			w.executes("write")
		}, "RF002"},
		"behind a commit that a limit does not stop": {func(w *readerWire) {
			w.runs("", "select switches()")
			w.Send(&pgproto3.Parse{Query: "commit"})
			w.Send(&pgproto3.Bind{})
			w.Send(&pgproto3.Execute{MaxRows: 1})
			w.runs("", "select writes()")
		}, "RF002"},
		"behind a commit, with Close and Flush in between": {func(w *readerWire) {
			w.Send(&pgproto3.Parse{Query: "select plans('default_transaction_read_only', 'off')"})
			w.Send(&pgproto3.Bind{DestinationPortal: "o"})
			w.runs("", "commit")
			w.Send(&pgproto3.Close{ObjectType: 'P'})
			w.Send(&pgproto3.Flush{})
			w.runs("", "select writes()")
		}, "RF002"},
		"a name that a failed Parse would give to another statement": {func(w *readerWire) {
			w.prepares("c", "commit")
			w.prepares("c", "select 1")
			w.writesBehind("c")
		}, "RF002"},
		"EXECUTE of a COMMIT": {func(w *readerWire) {
			w.Send(&pgproto3.Parse{Name: "c", Query: "commit"})
			w.runs("", "select switches()")
			w.runs("", "execute c")
			w.runs("", "select writes()")
		}, "RF002"},
		"behind DISCARD": {func(w *readerWire) {
			w.runs("", "discard temp")
			w.runs("", "select writes()")
		}, "25006"},
		"a changed meaning of backslashes": {func(w *readerWire) {
			w.runs("", "select set_config('standard_conforming_strings', 'off', false)")
			w.runs("", makesTableWithBackslash)
		}, "RF002"},
		"a meaning of backslashes that planning has changed": {func(w *readerWire) {
			w.Send(&pgproto3.Parse{Query: "select plans('standard_conforming_strings', 'off')"})
			w.Send(&pgproto3.Bind{})
			w.runs("w", makesTableWithBackslash)
		}, "RF002"},
		"a meaning of backslashes that parsing has changed": {func(w *readerWire) {
			w.Send(&pgproto3.Parse{Query: "select '{standard_conforming_strings}'::turned_off[]"})
			w.runs("w", makesTableWithBackslash)
		}, "RF002"},
		"a meaning of backslashes that half a statement has changed": {func(w *readerWire) {
			w.Send(&pgproto3.Parse{
				Query: "select set_config('standard_conforming_strings', 'off', false) from generate_series(1, 2)"})
			w.Send(&pgproto3.Bind{DestinationPortal: "p"})
			w.Send(&pgproto3.Execute{Portal: "p", MaxRows: 1})
			w.runs("w", makesTableWithBackslash)
		}, "RF002"},
		"in the transaction in which it is switched off": {func(w *readerWire) {
			w.runs("", "begin")
			w.runs("", "select switches_in_transaction()")
			w.runs("", "select writes()")
		}, "RF002"},
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
