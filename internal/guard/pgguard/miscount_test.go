package pgguard

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// tapped starts a guard that reaches its database through a tap.
func tappedGuard(t *testing.T, with setup) (*guarded, *tap) {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	p, control := tapBefore(t, pg, database)
	with.control = control
	return guardBefore(t, pg, database, with), p
}

// spoiled is a client whose guard counts one answer too many. Its statement under way is held
// between guard and server, and everything before that is answered. So by the count it is at rest.
type spoiled struct {
	*rawClient
	last *tapped // its connection from the guard to the server
}

// spoil opens a session under token 5 and spoils the count of its answers. first is answered before
// the statement that is under way then.
//
// A statement timeout that a Parse has armed ends nothing while the backend waits for a request.
// The next message is answered with an error. CopyData is no message of the extended protocol, so a
// ReadyForQuery follows that nobody asked for.
func (g *guarded) spoil(p *tap, first, underWay string) spoiled {
	g.t.Helper()
	w := dialWire(g.t, g.Addr)
	w.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
	all := p.of("app")
	s := spoiled{w, all[len(all)-1]}
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		w.query("set statement_timeout = 50")
		w.until("Z")
		w.send(encode('P', "\x00select 1\x00\x00\x00"), encode('H'))
		w.until("1")
		time.Sleep(wait) // the timeout has to pass, and nothing says that it has
		data, begin := encode('d', "x"), encode('Q', first, "\x00")
		s.last.passOnly(len(data) + len(begin))
		w.send(data, begin, encode('Q', underWay, "\x00"))
		m := w.until("EC")
		w.until("Z")
		if m.kind == 'E' { // the timeout had passed
			w.until("C")
			w.until("Z")
			return s
		}
		s.last.pass()
		w.until("Z")
	}
}

func TestAStatementUnderWayOfASessionWithAWrongCountIsNotExecuted(t *testing.T) {
	t.Parallel()
	onEachRelay(t, func(t *testing.T, limit func(*guard.Server)) {
		g, p := tappedGuard(t, setup{limit: limit})
		a := g.spoil(p, "set statement_timeout = 0", "insert into ledger (token) values (5)")
		g.open(7)
		a.last.pass()
		if e := a.until("E").error(t); e.Code != "RF001" {
			t.Errorf("the older client got %+v", e)
		}
		g.until(sessionsWhere+"usename = 'app'", 1)
		if n := g.count("select count(*) from ledger"); n != 0 {
			t.Errorf("%d stale writes", n)
		}
	})
}

func TestASealedTableTakesNothingOfASessionWithAWrongCount(t *testing.T) {
	t.Parallel()
	g, p := tappedGuard(t, setup{})
	pgtest.Exec(t, g.pg.URL("postgres", g.database), `create trigger ringfence_seal before insert on ledger
	    for each statement execute function ringfence.seal('orders')`)
	a := g.spoil(p, "begin isolation level repeatable read; select 1", "insert into ledger (token) "+
		"values (5); commit")
	g.open(7)
	a.last.pass()
	a.until("E")
	g.until(sessionsWhere+"usename = 'app'", 1)
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d stale writes", n)
	}
}

func TestAShutdownDoesNotPromiseThatAStatementUnderWayWasNotExecuted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first string
	}{
		"idle":             {"set statement_timeout = 0"},
		"in a transaction": {"begin"},
	} {
		t.Run(name, func(t *testing.T) {
			g, p := tappedGuard(t, setup{drain: 100 * time.Millisecond})
			a := g.spoil(p, test.first, "insert into ledger (token) values (5); commit")
			stopped := g.stopping()
			if e := a.until("E").error(t); e.Code != wire.ResolutionUnknown {
				t.Errorf("the client got %+v", e)
			}
			a.last.pass()
			<-stopped
		})
	}
}

// The last word of a guard that ends the session by itself, while a statement runs that its count
// lacks. The statement commits after the guard has stopped passing on what the server sends.
func TestTheLastWordLeavesOpenWhatACommitWasThatTheCountLacks(t *testing.T) {
	t.Parallel()
	const insert = "insert into ledger (token) select 5 from (select pg_advisory_lock_shared(42)) l"
	const idle = 500 * time.Millisecond
	for name, test := range map[string]struct {
		with            setup
		first, underWay string
		stops           bool
	}{
		"a shutdown": {setup{drain: time.Minute}, "set statement_timeout = 0", insert,
			true},
		"a shutdown in a transaction": {setup{drain: 100 * time.Millisecond}, "begin; set local " +
			"statement_timeout = 0", insert + "; commit", true},
		"an idle session": {setup{Options: Options{IdleTimeout: idle}}, "set statement_timeout = 0",
			insert, false},
	} {
		t.Run(name, func(t *testing.T) {
			onEachRelay(t, func(t *testing.T, limit func(*guard.Server)) {
				test.with.limit = limit
				g, p := tappedGuard(t, test.with)
				holder := g.connectTo(g.pg.URL("postgres", g.database))
				g.exec(holder, "select pg_advisory_lock(42)")
				a := g.spoil(p, test.first, test.underWay)
				a.last.pass()
				if test.stops {
					g.stopping()
				}
				a.last.until(func(sent []byte) bool { return bytes.Count(sent, []byte("/* ringfence ")) > 1 })
				g.exec(holder, "select pg_advisory_unlock(42)")
				if e := a.until("E").error(t); e.Code != wire.ResolutionUnknown {
					t.Errorf("the client got %+v", e)
				}
				g.until("select count(*) from pg_stat_activity where usename = 'app' and datname = "+
					"current_database()", 0)
				if n := g.count("select count(*) from ledger"); n != 1 {
					t.Errorf("%d rows", n)
				}
			})
		})
	}
}

// What the server says of its own accord is no answer to a statement.
func TestANoticeAfterTheShutLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	for stream, alone := range map[string]bool{
		"IZ": true, "NIZ": true, "SIZ": true, "AIZ": true, "IZS": true, "INZ": true,
		"": false, "I": false, "Z": false, "CZIZ": false, "ZIZ": false, "IZIZ": false, "IZCZIZ": false,
		"EZ": false, "EIZ": false, "IZE": false, "DCZIZ": false, "1IZ": false, "VZIZ": false,
		"IZI": false,
	} {
		var messages []byte
		for _, kind := range []byte(stream) {
			messages = append(messages, encode(kind, "I")...)
		}
		for cut := range len(messages) + 1 { // wherever the stream is cut between two reads
			p := &progress{status: 'I'}
			p.shut(errDrained)
			d := &down{progress: p}
			var held []byte
			for _, part := range [][]byte{messages[:cut], messages[cut:]} {
				held = append(held, part...)
				n, err := d.Walk(held, io.Discard)
				if err != nil {
					t.Fatal(err)
				}
				held = held[n:]
			}
			if got := d.onlyProof(); got != alone {
				t.Errorf("%q cut at %d: %v", stream, cut, got)
			}
		}
	}
}
