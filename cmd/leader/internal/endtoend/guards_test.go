package endtoend

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
)

// rawQuery returns a Query message of the Postgres protocol.
func rawQuery(sql string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(sql)+1))
	return append(append(b, sql...), 0)
}

func TestBytesQueuedInAPausedGuardHaveNoEffectOnceLeadershipHasMoved(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	paused, other := s.guard(), s.guard()
	first := s.term("first")
	pg := paused.mustPostgres(first.Token()).PgConn().Conn()
	rd := s.rawRedis(paused, first.Token())

	paused.pause()
	for _, write := range []struct {
		conn  net.Conn
		bytes []byte
	}{
		{pg, rawQuery("insert into ledger (token, note) values (1, 'queued')")},
		{rd, []byte("RPUSH ledger queued\r\n")},
	} {
		_, err := write.conn.Write(write.bytes)
		must.Succeed(t, err)
	}
	s.resign(first)
	second := s.term("second")
	c := other.mustPostgres(second.Token())
	_, err := c.Exec(s.ctx, insert, second.Token(), "second")
	must.Succeed(t, err)
	must.Succeed(t, other.redisClient(second.Token()).RPush(s.ctx, "ledger", "second").Err())
	paused.signal(syscall.SIGCONT)

	for name, conn := range map[string]net.Conn{"RF001": pg, "STALETOKEN": rd} {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		said, _ := io.ReadAll(conn) // until the guard has closed the connection
		if !strings.Contains(string(said), name) {
			t.Errorf("the client of the paused guard was told %q, want %s", said, name)
		}
	}
	s.holdsOnly("second")
}

// rawRedis opens a fenced connection without a driver.
func (s *stack) rawRedis(g *guard, token fence.Token) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", g.redis)
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(c, "FENCE orders %s\r\n", token)
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || answer != "+OK\r\n" {
		s.t.Fatalf("FENCE: %q %v", answer, err)
	}
	return c
}

// holdsOnly checks that both ledgers contain exactly these notes.
func (s *stack) holdsOnly(notes ...string) {
	s.t.Helper()
	if got := s.column("select note from ledger order by n"); !slices.Equal(got, notes) {
		s.t.Errorf("Postgres holds %q, want %q", got, notes)
	}
	if got := s.list("ledger"); !slices.Equal(got, notes) {
		s.t.Errorf("Redis holds %q, want %q", got, notes)
	}
}

func TestAGuardThatWasKilledAndStartedEmptyRefusesTheOldTokenFirst(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	g := s.guard()
	first := s.term("first")
	g.mustPostgres(first.Token())
	must.Succeed(t, g.redisClient(first.Token()).RPush(s.ctx, "ledger", "first").Err())
	s.resign(first)
	second := s.term("second")
	g.mustPostgres(second.Token())
	must.Succeed(t, g.redisClient(second.Token()).RPush(s.ctx, "ledger", "second").Err())
	g.kill()
	g.start()
	_, err := g.postgres(first.Token())
	wantStale(t, "Postgres", err)
	wantStale(t, "Redis", g.redisClient(first.Token()).RPush(s.ctx, "ledger", "late").Err())
	g.mustPostgres(second.Token())
	must.Succeed(t, g.redisClient(second.Token()).RPush(s.ctx, "ledger", "second").Err())
}

func TestASessionOutlivesItsGuardOnlyUntilTheNextLeaderIsReady(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	g, other := s.guard(), s.guard()
	first := s.term("first")
	c := g.mustPostgres(first.Token())
	query := rawQuery("insert into ledger (token, note) select 1, 'late' from pg_sleep(100)")
	_, err := c.PgConn().Conn().Write(query)
	must.Succeed(t, err)
	for len(s.column("select 'x' from pg_stat_activity where state = 'active' and query like "+
		"'insert into ledger%'")) == 0 {
		if s.ctx.Err() != nil {
			t.Fatal("the statement does not start")
		}
		time.Sleep(pollEvery)
	}
	g.kill() // the statement continues, since its backend does not check the connection
	s.resign(first)
	second := s.term("second")
	other.mustPostgres(second.Token())
	n := s.column("select 'x' from pg_stat_activity where state = 'active' and query like 'insert " +
		"into ledger%'")
	if len(n) > 0 {
		t.Error("a statement of the old leader still runs although the new leader is ready")
	}
}

func TestOnlyTheElectedLeaderMayRaiseTheMark(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	g := s.guard()
	leader := s.term("leader")
	g.mustPostgres(leader.Token())
	waiting := s.enrol("waiting")
	for name, token := range map[string]fence.Token{
		"a token that was never issued": 1<<62 + 1, "the number of a candidate that waits": waiting,
	} {
		_, err := g.postgres(token)
		if err == nil || !strings.Contains(err.Error(), "RF007") {
			t.Errorf("%s on Postgres: %v", name, err)
		}
		err = g.redisClient(token).RPush(s.ctx, "ledger", "late").Err()
		if err == nil || !strings.Contains(err.Error(), "NOTLEADER") {
			t.Errorf("%s on Redis: %v", name, err)
		}
	}
	g.mustPostgres(leader.Token()) // the leader is still admitted
}

func TestARebuiltCoordinatorFailsClosedUntilAnOperatorAdoptsIt(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	g := s.guard()
	before := s.term("before")
	g.mustPostgres(before.Token())
	must.Succeed(t, g.redisClient(before.Token()).RPush(s.ctx, "ledger", "before").Err())
	must.Succeed(t, s.zk.Wipe(s.ctx))
	after := s.term("after")
	_, err := g.postgres(after.Token())
	if err == nil || !strings.Contains(err.Error(), "RF00") {
		t.Errorf("Postgres after the wipe: %v", err)
	}
	if err := g.redisClient(after.Token()).RPush(s.ctx, "ledger", "after").Err(); err == nil {
		t.Error("Redis accepted a token of another issuer")
	}
	out, err := s.program("guard", "adopt", "orders").CombinedOutput()
	if err != nil {
		t.Fatalf("adopt: %v: %s", err, out)
	}
	_, err = g.mustPostgres(after.Token()).Exec(s.ctx, insert, after.Token(), "after")
	must.Report(t, err)
	must.Succeed(t, g.redisClient(after.Token()).RPush(s.ctx, "ledger", "after").Err())
}
