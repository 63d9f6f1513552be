package endtoend

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// redisAt is a server of a pair. Each call has a deadline.
type redisAt struct {
	s  *stack
	db *redis.Client
}

func (s *stack) at(server *servers.Redis) redisAt {
	db := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 30 * time.Second})
	s.t.Cleanup(func() { _ = db.Close() })
	return redisAt{s, db}
}

// do runs a command, and returns its answer as text.
func (r redisAt) do(command ...any) string {
	r.s.t.Helper()
	answer, err := r.db.Do(r.s.ctx, command...).Result()
	if err != nil {
		r.s.t.Fatalf("%v: %v", command, err)
	}
	return fmt.Sprint(answer)
}

// follow makes the server a replica, and returns when it has all data of the other one.
func (r redisAt) follow(of *servers.Redis) {
	r.s.t.Helper()
	host, port, _ := net.SplitHostPort(of.Addr())
	r.do("REPLICAOF", host, port)
	for !strings.Contains(r.do("INFO", "replication"), "master_link_status:up") {
		if r.s.ctx.Err() != nil {
			r.s.t.Fatal("the replica has no data")
		}
		time.Sleep(pollEvery)
	}
	r.catchUp(r.s.at(of))
}

// catchUp waits until a replica has all that was written at its primary. WAIT would only wait for
// the writes of one connection.
func (r redisAt) catchUp(primary redisAt) {
	r.s.t.Helper()
	for want := primary.offset(); r.offset() < want; time.Sleep(pollEvery) {
		if r.s.ctx.Err() != nil {
			r.s.t.Fatal("the replica lacks the last writes")
		}
	}
}

// offset is the end of what the server has of its stream of replication, in bytes.
func (r redisAt) offset() int64 {
	r.s.t.Helper()
	_, rest, _ := strings.Cut(r.do("INFO", "replication"), "master_repl_offset:")
	text, _, _ := strings.Cut(rest, "\r")
	offset, err := strconv.ParseInt(text, 10, 64)
	must.Succeed(r.s.t, err)
	return offset
}

// stoodStill is longer than a guard may stand still without asking its server again.
const stoodStill = 3 * time.Second

// Two Redis servers change places twice while a guard is stopped. The older leader's connection at
// the first server stays open through that, the newer leader's mark and value come there, and no
// raise has reached the connection. The guard itself must not pass on what it has received.
func TestBytesQueuedInAPausedGuardHaveNoEffectAfterAFailoverThereAndBack(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	second := serverstest.Redis(t, servers.RedisOptions{})
	one, two := s.at(s.redis), s.at(second)
	two.follow(s.redis)
	address := serverstest.NewRelay(t, s.redis.Addr())
	free := serverstest.FreeAddresses(t, 6)
	paused, other := s.prepared(free[:3]), s.prepared(free[3:])
	paused.env = []string{"GUARD_REDIS_UPSTREAM=redis://" + address.Addr()}
	paused.start()
	older := s.term("older")
	old := s.rawRedis(paused, older.Token())

	paused.pause()
	stopped := time.Now()
	_, err := old.Write([]byte("SET written older\r\n"))
	must.Succeed(t, err)
	two.catchUp(one)
	two.do("REPLICAOF", "NO", "ONE")
	address.Lead(second.Addr())
	s.resign(older)
	newer := s.term("newer")
	other.env = []string{"GUARD_REDIS_UPSTREAM=" + second.URL()}
	other.start()
	must.Succeed(t, other.redisClient(newer.Token()).Set(s.ctx, "written", "newer", 0).Err())
	one.follow(second)
	one.do("REPLICAOF", "NO", "ONE")
	address.Lead(s.redis.Addr())
	two.follow(s.redis)
	time.Sleep(time.Until(stopped.Add(stoodStill))) // what is tested begins with this time
	paused.signal(syscall.SIGCONT)

	_ = old.SetReadDeadline(time.Now().Add(30 * time.Second))
	said, err := io.ReadAll(old) // until the guard has closed the connection
	if len(said) > 0 && !strings.HasPrefix(string(said), "-STALETOKEN") || err != nil {
		t.Errorf("the older leader was told %q, %v", said, err)
	}
	if got := one.do("GET", "written"); got != "newer" {
		t.Errorf("the newer leader's value is now %q", got)
	}
}
