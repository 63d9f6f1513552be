package pgguard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

func TestASessionIsQuietOnlyWhenEverythingIsAnswered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		up, down []byte
		quiet    bool
	}{
		"nothing":                  {nil, nil, true},
		"a query":                  {encode('Q', "insert\x00"), nil, false},
		"a query that is answered": {encode('Q', "insert\x00"), encode('Z', "I"), true},
		"an open transaction":      {encode('Q', "begin\x00"), encode('Z', "T"), true},
		"two queries, one answered": {join(encode('Q', "x"), encode('Q', "x")),
			encode('Z', "I"), false},
		"half a query":         {encode('Q', "insert\x00")[:9], nil, false},
		"part of a header":     {[]byte{'Q', 0}, nil, false},
		"a parse without sync": {encode('P', "x"), nil, false},
		"a flushed execute":    {join(encode('E', "x"), encode('H')), nil, false},
		"a parse, then sync":   {join(encode('P', "x"), encode('S')), nil, false},
		"a parse, then sync, answered": {join(encode('P', "x"), encode('S')),
			encode('Z', "I"), true},
		"copy data of a running copy": {join(encode('Q', "x"), encode('d', "x")),
			encode('G', "x"), false},
		"a failed transaction": {encode('Q', "select 1/0\x00"),
			join(encode('E', "x"), encode('Z', "E")), true},
	} {
		t.Run(name, func(t *testing.T) {
			server, guard := net.Pipe()
			asked := make(chan []byte, 1)
			go func() { b, _ := io.ReadAll(server); asked <- b }()
			s := &progress{status: 'I', server: guard}
			toServer, toClient := &up{progress: s}, &down{progress: s}
			if _, err := toServer.Walk(test.up, io.Discard); err != nil {
				t.Fatal(err)
			}
			if _, err := toClient.Walk(test.down, io.Discard); err != nil {
				t.Fatal(err)
			}
			proof, quiet := s.Quiet()
			if quiet != test.quiet {
				t.Errorf("quiet is %v", quiet)
			}
			guard.Close()
			if b := <-asked; quiet != bytes.Equal(b, encode('Q', proof.Statement, "\x00")) {
				t.Errorf("the guard has sent %q", b)
			}
			var passed bytes.Buffer
			if _, err := toServer.Walk(encode('Q', "x"), &passed); err != nil ||
				(passed.Len() == 0) != test.quiet {
				t.Errorf("%d bytes of another query have passed, %v", passed.Len(), err)
			}
			passed.Reset()
			answer := join(encode('I'), encode('Z', "I"))
			if _, err := toClient.Walk(answer, &passed); err != nil || (passed.Len() == 0) != test.quiet {
				t.Errorf("%d bytes of an answer have passed, %v", passed.Len(), err)
			}
		})
	}
}

// A part of a statement that is counted and not yet written could come behind the proof.
func TestASessionIsNotQuietWhileTheGuardWritesToTheServer(t *testing.T) {
	t.Parallel()
	s := &progress{status: 'I'}
	var quiet bool
	data := encode('d', "of no COPY: it has no answer")
	if _, err := (&up{progress: s}).Walk(data, writing(func() {
		_, quiet = s.Quiet()
	})); err != nil || quiet {
		t.Errorf("quiet is %v, %v", quiet, err)
	}
}

// writing is a connection that calls a function while it is written to.
type writing func()

func (w writing) Write(b []byte) (int, error) { w(); return len(b), nil }

// unrevoking is a store that counts the calls of Revoke.
type unrevoking struct {
	marks.Store
	calls atomic.Int32
}

func (s *unrevoking) Revoke(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim,
) (int, error) {
	s.calls.Add(1)
	return s.Store.Revoke(ctx, newcomer, c)
}

func TestSessionsAtRestAreQuietWithoutTheServer(t *testing.T) {
	t.Parallel()
	for try := 1; takeoverAtRest(t) > 0; try++ {
		if try == 5 { // a proof has 25 ms, which a machine that stalls does not keep
			t.Fatal("the server was asked to end sessions, each time")
		}
	}
}

// takeoverAtRest returns how often the server was asked to end sessions.
func takeoverAtRest(t *testing.T) (calls int32) {
	var s unrevoking
	g := fencedBy(t, setup{wrap: func(real marks.Store) marks.Store { s.Store = real; return &s }})
	idle, open := g.open(5), g.open(5)
	g.exec(idle, "insert into ledger (token) values (5)")
	g.exec(open, "begin")
	g.exec(open, "insert into ledger (token) values (5)")
	g.open(7)
	calls = s.calls.Load()
	for _, c := range []*pgx.Conn{idle, open} {
		_, err := c.Exec(t.Context(), "commit")
		wantCode(t, err, "RF001")
	}
	g.until(sessionsWhere+"usename = 'app'", 1)
	if n := g.count("select count(*) from ledger"); n != 1 {
		t.Errorf("%d rows, want the one from before", n)
	}
	if n := g.count("select count(*) from ringfence_private.session"); n != 1 {
		t.Errorf("%d sessions are registered", n)
	}
	return calls
}

// The guard has passed the statement on, so only the server can keep it from writing.
func TestASessionWithAStatementUnderWayIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	release, result := g.held(g.open(5))
	g.open(7)
	release()
	wantCode(t, <-result, "RF001")
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows of a statement that was under way", n)
	}
}

// listeners counts the guards that listen for raises.
const listeners = `select count(*) from pg_stat_activity
    where datname = current_database() and query = 'listen ringfence' and state = 'idle'`

// The raise is not followed by a revocation, so only the guard of the session can end it.
func TestAGuardEndsItsSessionsWhenAnotherProcessRaisesTheMark(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	c := g.open(5)
	g.until(listeners, 1)
	raise := func(token fence.Token) {
		t.Helper()
		claim := fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified}
		confirm := func(context.Context, marks.Mark) (fence.Claim, error) { return claim, nil }
		if _, err := g.store.Raise(t.Context(), marks.SessionID{}, claim, confirm); err != nil {
			t.Fatal(err)
		}
	}
	const tell = "notify ringfence, 'orders'"
	pgtest.Exec(t, g.pg.URL("postgres", g.database), tell) // nothing was raised
	g.exec(c, "select 1")
	raise(7)
	pgtest.Exec(t, g.pg.URL("postgres", g.database), tell)
	g.until(sessionsWhere+"usename = 'app'", 0)
	_, err := c.Exec(t.Context(), "select 1")
	wantCode(t, err, "RF001")
}

// A guard whose listening connection is lost listens again.
func TestAGuardListensAgain(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	const pid = `select coalesce(max(pid), 0) from pg_stat_activity
	    where datname = current_database() and query = 'listen ringfence' and state = 'idle'`
	first := g.eventually(pid, func(n int) bool { return n != 0 })
	pgtest.Exec(t, g.pg.URL("postgres", g.database),
		fmt.Sprintf("select pg_terminate_backend(%d)", first))
	g.eventually(pid, func(n int) bool { return n != 0 && n != first })
}
