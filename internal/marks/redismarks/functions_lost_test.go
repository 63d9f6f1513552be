package redismarks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// After a restart the mark may have been higher. The holder takes it anew, with the same attempt.
func TestAHolderTakesItAgainAfterARestart(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 3)
		b.restart(t)
		p.loadScript()
		p.refused(p.put(pass, "unconfirmed"), "NOTRAISED", "before it is taken again")
		fresh := p.take("worker-1", 3)
		p.refused(p.put(pass, "late"), "STALETOKEN", "the pass of before")
		if err := p.put(fresh, "x"); err != nil || fmt.Sprint(b.written(t)) != "[x]" {
			t.Error(err, b.written(t))
		}
		if again := p.take("worker-1", 3); again != fresh {
			t.Errorf("again: %q, then %q", fresh, again)
		}
	})
}

// Redis has lost the last take in a crash, and gives its number to somebody else.
func TestANumberThatIsGivenOutAgainIsAnotherToken(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	p.take("worker-1", 1)
	before := b.admin.HGetAll(t.Context(), "ringfence:orders").Val()
	lost := p.take("worker-2", 2)
	for field, value := range before {
		b.do(t, "HSET", "ringfence:orders", field, value)
	}
	b.restart(t)
	p.refused(p.put(lost, "x"), "NOTRAISED", "before anybody has taken it again")
	fresh := p.take("worker-3", 3)
	if !strings.HasPrefix(fresh, "orders 2 ") || !strings.HasPrefix(lost, "orders 2 ") {
		t.Fatalf("this shows nothing: %q, %q", lost, fresh)
	}
	p.refused(p.put(lost, "x"), "NOTRAISED", "the number's other holder")
	if n := len(b.written(t)); n != 0 {
		t.Errorf("%d stale writes", n)
	}
}

func TestAFlushedRedisTakesNothingBefore(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 1)
		b.do(t, "FLUSHALL")
		p.refused(p.put(pass, "x"), "NOTINSTALLED", "a pass")
		_, err := p.call("ringfence_take", "orders", "worker-1", 1)
		p.refused(err, "NOTINSTALLED", "a take")
		must.Succeed(t, redismarks.Install(t.Context(), b.server.URL()))
		p.refused(p.put(pass, "x"), "NOTRAISED", "a pass after another installation")
		fresh := p.take("worker-2", 1)
		if !strings.HasPrefix(fresh, "orders 1 ") {
			t.Fatalf("this shows nothing: %q", fresh)
		}
		p.refused(p.put(pass, "x"), "NOTRAISED", "a pass with the number of another one")
		if err := p.put(fresh, "y"); err != nil || fmt.Sprint(b.written(t)) != "[y]" {
			t.Error(err, b.written(t))
		}
	})
}

// Earlier data are loaded into the running server, on which only functions have raised marks.
func TestEarlierDataBringNoHolderBack(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(t *testing.T, b *bench){
		"dumps are restored": func(t *testing.T, b *bench) {
			for _, key := range []string{"ringfence", "ringfence:.original", "ringfence:orders"} {
				b.do(t, "RESTORE", key, 0, b.do(t, "GET", "dump:"+key), "REPLACE")
			}
		},
		"a copy comes by SWAPDB": func(t *testing.T, b *bench) { b.do(t, "SWAPDB", 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, redisWith(t))
			p := b.program(t, false)
			b.restart(t)
			old := p.take("worker-1", 1)
			must.Succeed(t, p.put(old, "x"))
			for _, key := range []string{"ringfence", "ringfence:.original", "ringfence:orders"} {
				b.do(t, "SET", "dump:"+key, b.do(t, "DUMP", key))
			}
			b.copyTo(t, 1, "ringfence", "ringfence:.original", "ringfence:orders")
			fresh := p.take("worker-2", 2)
			load(t, b)
			for _, pass := range []string{old, fresh} {
				if err := p.put(pass, "late"); err == nil {
					t.Errorf("%q counts on earlier data", pass)
				}
			}
		})
	}
}

func TestALostMarkIsTakenAnew(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	pass := p.take("worker-1", 1)
	b.do(t, "DEL", "ringfence:orders")
	p.refused(p.put(pass, "x"), "NOTRAISED", "its pass")
	fresh := p.take("worker-1", 1)
	if !strings.HasPrefix(fresh, "orders 1 ") || fresh == pass {
		t.Fatalf("%q, then %q", pass, fresh)
	}
	p.refused(p.put(pass, "x"), "NOTRAISED", "a pass with the same number")
	must.Succeed(t, p.put(fresh, "x"))
}

// A replica has library and mark. Promoted, it takes nothing of before.
func TestAfterAFailoverItIsTakenAgain(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 1)
		replica := redisWith(t)
		other := &bench{server: replica}
		host, port, _ := strings.Cut(b.server.Addr(), ":")
		there := program{t, other.client(t, func(o *driver.Options) { o.MaxRetries = -1 }), p.script}
		do := func(args ...any) {
			t.Helper()
			must.Succeed(t, there.db.Do(t.Context(), args...).Err())
		}
		do("REPLICAOF", host, port)
		until(t, "the replica has the mark", func() bool {
			return there.db.HGet(t.Context(), "ringfence:orders", "token").Val() == "1"
		})
		// The primary has a first replica now, and so another replication id.
		until(t, "the mark is taken again", func() bool {
			pass = p.take("worker-1", 1)
			return p.put(pass, "x") == nil
		})
		until(t, "the replica has what was written with that pass", func() bool {
			return there.db.LLen(t.Context(), "written").Val() == 1
		})
		if p.script {
			there.loadScript()
		}
		if err := there.put(pass, "on the replica"); err == nil {
			t.Error("a replica has written")
		}
		if _, err := there.call("ringfence_take", "orders", "worker-2", 2); err == nil ||
			!strings.Contains(err.Error(), "READONLY") && !driver.HasErrorPrefix(err, "READONLY") {
			t.Errorf("a take at a replica: %v", err)
		}
		do("REPLICAOF", "NO", "ONE")
		there.refused(there.put(pass, "x"), "NOTRAISED", "on the promoted replica")
		fresh := there.take("worker-2", 2)
		there.refused(there.put(pass, "x"), "STALETOKEN", "the holder of before")
		must.Report(t, there.put(fresh, "y"))
		if list := there.db.LRange(t.Context(), "written", 0, -1).Val(); fmt.Sprint(list) != "[x y]" {
			t.Error(list)
		}
	})
}

// A new holder gets in when Redis is out of memory; a command that needs memory does not run.
func TestATakeNeedsNoMemoryThatRedisLacks(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	pass := p.take("worker-1", 1)
	b.do(t, "CONFIG", "SET", "maxmemory", 1)
	p.refused(p.put(pass, "x"), "OOM", "a command")
	p.take("worker-2", 2)
	b.do(t, "CONFIG", "SET", "maxmemory", 0)
	p.refused(p.put(pass, "x"), "STALETOKEN", "a deposed holder")
}

func TestAClusterRunsNoFunction(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	p := program{t: t, db: (&bench{server: server}).client(t, nil)}
	slots := p.db.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	loaded := p.db.Do(t.Context(), "FUNCTION", "LOAD", redismarks.Library())
	must.Succeed(t, errors.Join(slots.Err(), loaded.Err()))
	until(t, "the cluster is up", func() bool {
		return strings.Contains(p.db.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	if _, err := p.call("ringfence_take", "orders", "worker-1", 1); err == nil ||
		!strings.Contains(err.Error(), "cluster") {
		t.Error(err)
	}
}
