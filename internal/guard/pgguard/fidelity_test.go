package pgguard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/test/must"
)

// dialogues are the messages that a client sends. The server's answers must be the same with and
// without a guard.
var dialogues = map[string][][]byte{
	"simple queries": {encode('Q', "select 1; select 'two', 3.5; select\x00"), encode('Q', "\x00"),
		encode('Q', ";;\x00")},
	"an error in the middle": {
		encode('Q', "select 1; select 1/0; select 2\x00"), encode('Q', "begin; select broken\x00"),
		encode('Q', "select 1\x00"), encode('Q', "rollback\x00"),
	},
	"notices": {encode('Q', "do $$ begin raise notice 'first'; raise warning 'second'; "+
		"raise info 'third'; end $$\x00")},
	"an error with everything": {encode('Q', `do $$ begin raise exception using errcode = '57P01',
	    message = 'not what you think', detail = 'why', hint = 'what', table = 'ledger',
	    column = 'n', constraint = 'c', schema = 's', datatype = 'd'; end $$`+"\x00")},
	"settings that are reported": {encode('Q',
		"set application_name = 'other'; set timezone = 'Asia/Tokyo'; "+
			"set client_encoding = 'LATIN1'; set datestyle = 'German'\x00")},
	"an extended query": {join(
		encode('P', "s\x00select $1::int + 1, $2::text\x00\x00\x00"), encode('D', "Ss\x00"),
		encode('B', "\x00s\x00\x00\x00\x00\x02\x00\x00\x00\x0241\x00\x00\x00\x01x\x00\x00"),
		encode('D', "P\x00"), encode('E', "\x00\x00\x00\x00\x00"),
		encode('C', "Ss\x00"), encode('S'))},
	"a portal in pieces": {join(
		encode('P', "\x00select generate_series(1, 5)\x00\x00\x00"),
		encode('B', "p\x00\x00\x00\x00\x00\x00\x00\x00"),
		encode('E', "p\x00\x00\x00\x00\x02"), encode('E', "p\x00\x00\x00\x00\x02"),
		encode('E', "p\x00\x00\x00\x00\x00"), encode('S'))},
	"a pipeline with an error": {join(
		encode('P', "\x00select 1/0\x00\x00\x00"), encode('B', "\x00\x00\x00\x00\x00\x00\x00\x00"),
		encode('E', "\x00\x00\x00\x00\x00"),
		encode('P', "\x00select 'skipped'\x00\x00\x00"), encode('S'),
		encode('P', "\x00select 'runs'\x00\x00\x00"),
		encode('B', "\x00\x00\x00\x00\x00\x00\x00\x00"),
		encode('E', "\x00\x00\x00\x00\x00"), encode('S'))},
	"queries in one go": {join(encode('Q', "select 1\x00"),
		encode('Q', "select 2\x00"), encode('Q', "select 3\x00")), encode('Q', "select 4\x00")},
	"a query byte by byte": chopped(encode('Q', "select 'slowly'\x00")),
	"copy out": {encode('Q',
		"copy (select generate_series(1, 1000), repeat('x', 50)) to stdout\x00")},
	"copy in": {join(encode('Q', "copy t from stdin\x00"),
		encode('d', "1\ta\n2\tb\n"), encode('d', "3\tc\n"), encode('c')),
		encode('Q', "select n + 0, s || '' from t\x00")},
	"copy in that the client aborts": {join(encode('Q', "copy t from stdin\x00"),
		encode('d', "1\ta\n"), encode('f', "enough\x00")),
		encode('Q', "select n + 0, s || '' from t\x00")},
	"copy in that is wrong": {join(encode('Q', "copy t from stdin\x00"),
		encode('d', "one\ta\n"), encode('d', "2\tb\n"), encode('c')), encode('Q', "select 1\x00")},
	"a function call": {encode('F',
		"\x00\x00\x05\x26\x00\x00\x00\x01\x00\x00\x00\x03abc\x00\x00")},
	"a flush": {join(encode('P', "\x00select 1\x00\x00\x00"), encode('H')),
		encode('S')},
	"an unknown message": {encode('y', "what?")},
	"binary results": {join(encode('P', "\x00select 1::int8, 'x'::text\x00\x00\x00"),
		encode('B', "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01"),
		encode('E', "\x00\x00\x00\x00\x00"), encode('S'))},
	"prepare and deallocate": {encode('Q',
		"prepare q(int) as select $1; execute q(5); deallocate all\x00")},
	"a goodbye": {encode('Q', "select 1\x00"), encode('X')},
	"requests, and in the same packet one of an impossible length": {join(
		encode('Q', "select 1\x00"), encode('Q', "select 2\x00"), []byte{'Q', 0, 0, 0, 3})},
	"an answer that comes 7 s after the client's last byte": {
		encode('Q', "select 1\x00"), encode('Q', "select pg_sleep(7)\x00")},
	"the end of the own backend, after the last byte": {encode('Q', "select 1\x00"),
		encode('Q', "select pg_terminate_backend(pg_backend_pid())\x00")},
}

func chopped(b []byte) (parts [][]byte) {
	for i := range b {
		parts = append(parts, b[i:i+1])
	}
	return parts
}

func TestTheSameDialogueGivesTheSameAnswersWithAGuardInBetween(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	for name, sent := range dialogues {
		t.Run(name, func(t *testing.T) {
			direct, guarded := g.dialogue(t, g.pg.Addr(), sent), g.dialogue(t, g.Addr, sent)
			if direct != guarded {
				t.Errorf("direct:\n%s\nthrough the guard:\n%s", direct, guarded)
			}
			if !strings.Contains(direct, "\nZ ") && name != "an unknown message" {
				t.Errorf("the server was not ready again, so this dialogue proves nothing:\n%s",
					direct)
			}
		})
	}
}

// dialogue sends all parts and returns the server's answers, one message per line.
func (g *guarded) dialogue(t *testing.T, addr string, sent [][]byte) string {
	w := dialWire(t, addr)
	w.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
	w.query("create temp table t (n int, s text)")
	w.until("Z")
	return w.dialogue(sent, "")
}

// dialogue sends all parts and returns the answers, one message per line, without some kinds.
func (w *rawClient) dialogue(sent [][]byte, without string) string {
	for _, part := range sent {
		w.send(part)
	}
	_ = w.Conn.(interface{ CloseWrite() error }).CloseWrite()
	all, left := messages(w.rest())
	var b strings.Builder
	for _, m := range all {
		if strings.IndexByte(without, m.kind) < 0 {
			fmt.Fprintf(&b, "\n%c %q", m.kind, m.body)
		}
	}
	return fmt.Sprintf("%s\n%q", b.String(), left)
}

func TestManyMegabytesPassBothWaysUnchanged(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	c := g.open(5)
	g.exec(c, "create temp table bulk (n int, s text)")
	var block bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&block, "%d\t%0512d\n", i, i)
	}
	up := sha256.New()
	var blocks []io.Reader
	for range 10 { // 52 MB
		blocks = append(blocks, io.TeeReader(bytes.NewReader(block.Bytes()), up))
	}
	tag, err := c.PgConn().CopyFrom(t.Context(), io.MultiReader(blocks...), "copy bulk from stdin")
	if err != nil || tag.RowsAffected() != 100_000 {
		t.Fatalf("%v: %v", tag, err)
	}
	down := sha256.New()
	_, err = c.PgConn().CopyTo(t.Context(), down, "copy bulk to stdout")
	must.Succeed(t, err)
	if !bytes.Equal(up.Sum(nil), down.Sum(nil)) {
		t.Error("the data that came back differ from the data that were sent")
	}
}

func TestMessagesAroundTheSizeOfTheBufferPass(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	c := g.open(5)
	for _, middle := range []int{4096, relay.BufferSize, 2 * relay.BufferSize} {
		for size := middle - 24; size <= middle+24; size++ {
			sent := strings.Repeat("x", size)
			var got string
			if err := c.QueryRow(t.Context(), "select $1::text", sent).Scan(&got); err != nil ||
				got != sent {
				t.Fatalf("%d bytes: %d came back: %v", size, len(got), err)
			}
		}
	}
	var got string
	sent := strings.Repeat("y", 10<<20)
	if err := c.QueryRow(t.Context(), "select $1::text", sent).Scan(&got); err != nil ||
		got != sent {
		t.Fatalf("%d of %d bytes came back: %v", len(got), len(sent), err)
	}
}

func TestBatchesAndPipelinesPass(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	c := g.open(5)
	b := &pgx.Batch{}
	for i := range 500 {
		b.Queue("insert into ledger (token, note) values ($1, $2)", 5, strings.Repeat("n", i))
	}
	must.Succeed(t, c.SendBatch(t.Context(), b).Close())
	p := c.PgConn().StartPipeline(t.Context())
	for i := range 200 {
		statement := "insert into ledger (token) values (5)"
		if i%10 == 9 {
			statement = "select 1/0"
		}
		p.SendQueryParams(statement, nil, nil, nil, nil)
		must.Succeed(t, p.Sync())
	}
	failed := 0
	for range 400 - 20 { // each statement gives a result and a sync, a failed one only a sync
		r, err := p.GetResults()
		if reader, ok := r.(*pgconn.ResultReader); ok {
			_, err = reader.Close()
		}
		if err != nil {
			wantCode(t, err, "22012")
			failed++
		}
	}
	_ = p.Close()
	if n := g.count("select count(*) from ledger"); n != 680 {
		t.Errorf("%d rows, %d errors", n, failed)
	}
}

func TestANotificationArrivesWhileTheSessionIsIdle(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	listener, notifier := g.open(5), g.open(5)
	g.exec(listener, "listen news")
	g.exec(notifier, "notify news, 'it works'")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n, err := listener.WaitForNotification(ctx)
	if err != nil || n.Payload != "it works" || n.PID != notifier.PgConn().PID() {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestACancelRequestEndsOnlyTheStatement(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	cfg, err := pgx.ParseConfig(g.url("app", 5))
	must.Succeed(t, err)
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 10 * time.Second}
	}
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	must.Succeed(t, err)
	defer c.Close(context.Background())
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.Exec(ctx, "select pg_sleep(60)")
		result <- err
	}()
	sleeping := "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)' " +
		"and state = 'active' and datname = current_database()"
	g.until(sleeping, 1)
	cancel()
	err = <-result
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57014" {
		t.Errorf("got %v", err)
	}
	g.until(sleeping, 0)
	if _, err := c.Exec(t.Context(), "insert into ledger (token) values (5)"); err != nil {
		t.Errorf("after the cancellation: %v", err)
	}
}

func TestACancelRequestWorksThroughAnotherGuard(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	c := g.open(5)
	_, result := g.held(c)
	other := dialWire(t, g.another(setup{}).Addr)
	other.send(cancelOf(c))
	_ = other.rest()
	wantCode(t, <-result, "57014")
}
