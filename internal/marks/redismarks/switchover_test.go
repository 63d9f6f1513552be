package redismarks_test

import (
	"errors"
	"strings"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// follow makes the server a replica of another one, and returns when it has all data.
func (b *bench) follow(t *testing.T, of *servers.Redis) {
	t.Helper()
	host, port, _ := strings.Cut(of.Addr(), ":")
	b.do(t, "REPLICAOF", host, port)
	b.until(t, "master_link_status:up")
}

// promote makes the server a primary again.
func (b *bench) promote(t *testing.T) { t.Helper(); b.do(t, "REPLICAOF", "NO", "ONE") }

// until waits until INFO replication contains a text.
func (b *bench) until(t *testing.T, says string) {
	t.Helper()
	if !poll.Until(patience, func() bool {
		return strings.Contains(b.admin.Info(t.Context(), "replication").Val(), says)
	}) {
		t.Fatalf("INFO replication does not say %s", says)
	}
}

// A connection survives while its server is a replica for a time. When the server is the primary
// again, its registry is that of the other server, which has no record of the connection.
func TestASwitchoverAndBackLeavesNoOlderSessionAlive(t *testing.T) {
	t.Parallel()
	o := redismarks.Options{Coordinated: true}
	p, r := open(t, redisWith(t)), openWith(t, serverstest.Redis(t, servers.RedisOptions{}), o)
	p = openWith(t, p.server, o)
	old := p.admit(t, trusting{}, 5)
	r.follow(t, p.server)
	r.promote(t)
	r.admit(t, trusting{}, 6)
	p.follow(t, r.server)
	p.promote(t)
	if err := old.Write(t.Context(), "still the leader"); err != nil {
		t.Fatal("the switchover itself ended the session, which proves nothing")
	}
	p.admit(t, trusting{}, 6)
	if err := old.Write(t.Context(), "deposed"); err == nil {
		t.Error("after the newer leader was admitted the older one can still write")
	}
}

// The server is the same process, but its data are those of a replica that has missed the newer
// mark.
func TestAMarkThatComesBackFromALaggingReplicaIsNotConfirmed(t *testing.T) {
	t.Parallel()
	p, r := open(t, redisWith(t)), openWith(t, serverstest.Redis(t, servers.RedisOptions{}),
		redismarks.Options{Coordinated: true})
	p.admit(t, marks.Unverified{}, 5)
	r.follow(t, p.server)
	r.promote(t) // from now on it misses writes
	p.admit(t, marks.Unverified{}, 6)
	p.follow(t, r.server)
	p.promote(t)
	found, err := p.store.Marks(t.Context(), "orders")
	if err != nil || len(found) != 1 || found[0].Token != 5 || found[0].Confirmed {
		t.Fatalf("marks: %+v, %v", found, err)
	}
	st, err := p.store.Register(t.Context(), p.session(t).s, []fence.Claim{claim(5)})
	if err != nil || st.Next != marks.MustRaise {
		t.Errorf("the older leader's session: %+v, %v", st, err)
	}
	if err := put(t, p.admin, claim(5), "stale"); !errors.Is(err, fence.ErrNotRaised) {
		t.Errorf("a command under the older token: %v", err)
	}
}

// Key patterns do not prevent a script from swapping the databases and swapping them back: the
// earlier registry returns, without the sessions that were admitted in between.
func TestDatabasesThatAreSwappedAndSwappedBackLeaveNoOlderSessionAlive(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
	swap := func(c *conn) {
		t.Helper()
		const script = "return redis.call('SWAPDB', 0, 1)"
		must.Succeed(t, c.link.Eval(t.Context(), script, nil).Err())
	}
	first := guard.admit(t, trusting{}, 5)
	swap(first)
	second := guard.admit(t, trusting{}, 5) // recorded in the other database's registry
	swap(second)
	guard.admit(t, trusting{}, 6)
	if err := second.Write(t.Context(), "deposed"); err == nil {
		t.Error("after a newer leader was admitted the older one can still write")
	}
	if err := put(t, b.admin, claim(5), "stale"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a command under the older token: %v", err)
	}
}

// Sessions and marks belong to the server, whatever database a session selects.
func TestTwoGuardsOfOneServerShareTheMarksWhateverDatabaseTheirURLsName(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	url := strings.TrimSuffix(b.server.URL(), "/0") + "/1"
	other, err := redismarks.Open(t.Context(), url, redismarks.Options{})
	must.Succeed(t, err)
	t.Cleanup(other.Close)
	old := b.admit(t, marks.Unverified{}, 5)
	newer := b.session(t)
	if err := (&marks.Admission{Store: other, Authority: marks.Unverified{}}).Admit(t.Context(),
		newer.s, marks.Present(claim(6))); err != nil {
		t.Fatal(err)
	}
	if err := old.Write(t.Context(), "deposed"); err == nil {
		t.Error("the older session is still alive")
	}

	db := driver.NewClient(&driver.Options{Addr: b.server.Addr(), DB: 1})
	t.Cleanup(func() { _ = db.Close() })
	if err := put(t, db, claim(5), "stale"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a command of database 1 under the older token: %v", err)
	}
	if err := put(t, db, claim(6), "fresh"); err != nil {
		t.Errorf("a command of database 1: %v", err)
	}
	if n := db.DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("database 1 has %d keys, want the one that the command wrote", n)
	}
}

func TestTheStoreWarnsOfAPolicyThatMayEvictMarks(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	for policy, warns := range map[string]bool{"noeviction": false, "volatile-lru": false,
		"allkeys-lru": true, "allkeys-random": true} {
		b.do(t, "CONFIG", "SET", "maxmemory-policy", policy, "maxmemory", "1gb")
		if w := b.store.Warning(t.Context()); strings.Contains(w, policy) != warns {
			t.Errorf("%s: %q", policy, w)
		}
	}
	b.do(t, "CONFIG", "SET", "maxmemory", "0")
	if w := b.store.Warning(t.Context()); w != "" {
		t.Errorf("without maxmemory: %q", w)
	}
}

// Above maxmemory the older leader can still delete, so the newer one must be admitted.
func TestWithoutMemoryTheNewerLeaderIsAdmittedAndTheOlderEnded(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	version := b.admin.Info(t.Context(), "server").Val()
	if strings.Contains(version, "redis_version:6.") {
		t.Skip("Redis 6.2 runs no script above maxmemory")
	}
	old := b.admit(t, marks.Unverified{}, 5)
	b.do(t, "SET", "x", "y")
	b.do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
	defer b.do(t, "CONFIG", "SET", "maxmemory", "0")
	if err := old.link.Set(t.Context(), "x", "z", 0).Err(); err == nil {
		t.Fatal("there is memory left, which proves nothing")
	}
	fresh := b.session(t)
	if err := b.admission(marks.Unverified{}).Admit(t.Context(), fresh.s,
		marks.Present(claim(6))); err != nil {
		t.Fatal(err)
	}
	if err := old.link.Del(t.Context(), "x").Err(); err == nil {
		t.Error("the older leader can still delete")
	}
	if _, err := b.store.Adopt(t.Context(),
		fence.Claim{Resource: "orders", Issuer: elector.Unverified}, "alice"); err != nil {
		t.Errorf("adopt: %v", err)
	}
}

// A primary without replicas keeps no history. When the first replica comes, Redis begins one,
// under a new replication id, and forgets the one before (master_replid2 is empty). It looks the
// same as after a time as a replica whose history has expired (repl-backlog-ttl), so nothing shows
// that no data were replaced, and everybody is ended once. Replicas that come later change nothing.
func TestTheFirstReplicaHasEverySessionEndedOnce(t *testing.T) {
	t.Parallel()
	o := redismarks.Options{Coordinated: true}
	p := openWith(t, redisWith(t), o)
	alone := p.admit(t, trusting{}, 5)
	begun := p.replication(t, "master_replid")
	first := openWith(t, serverstest.Redis(t, servers.RedisOptions{}), o)
	first.follow(t, p.server)
	if now, before := p.replication(t, "master_replid"),
		p.replication(t, "master_replid2"); now == begun ||
		strings.Trim(before, "0") != "" {
		t.Errorf("the replication id is %s, after %s; Redis says it was %s", now, begun, before)
	}
	if err := alone.Write(t.Context(), "goes on"); err != nil {
		t.Errorf("the replica itself has ended a session: %v", err)
	}
	with := p.admit(t, trusting{}, 5)
	if err := alone.Write(t.Context(), "still there"); err == nil {
		t.Error("a session from before the replica was spared: say so in docs/redis.md")
	}
	second := openWith(t, serverstest.Redis(t, servers.RedisOptions{}), o)
	second.follow(t, p.server)
	p.admit(t, trusting{}, 5)
	if err := with.Write(t.Context(), "goes on"); err != nil {
		t.Errorf("the second replica has ended a session: %v", err)
	}
}

// replication returns a field of INFO replication.
func (b *bench) replication(t *testing.T, field string) string {
	t.Helper()
	_, value, _ := strings.Cut(b.admin.Info(t.Context(), "replication").Val(), "\n"+field+":")
	value, _, _ = strings.Cut(value, "\r")
	return value
}
