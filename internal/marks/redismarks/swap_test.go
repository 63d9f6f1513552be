package redismarks_test

import (
	"errors"
	"fmt"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// ownKeys are the keys of Ringfence that make a mark count.
var ownKeys = []string{"ringfence", "ringfence:orders", "ringfence:.original"}

// in runs a command in a database.
func (b *bench) in(t *testing.T, database int, command ...any) any {
	t.Helper()
	const script = "redis.call('SELECT', ARGV[1]) return redis.call(unpack(ARGV, 2))"
	return b.do(t, append([]any{"EVAL", script, 0, database}, command...)...)
}

// copyTo copies keys from database 0.
func (b *bench) copyTo(t *testing.T, database int, keys ...string) {
	t.Helper()
	for _, k := range keys {
		b.do(t, "COPY", k, k, "DB", database, "REPLACE")
	}
}

// dump dumps our keys. The function that it returns restores them in a database.
func (b *bench) dump(t *testing.T) (restore func(database int)) {
	t.Helper()
	dumped := map[string]any{}
	for _, k := range ownKeys {
		dumped[k] = b.do(t, "DUMP", k)
	}
	return func(database int) {
		for k, v := range dumped {
			b.in(t, database, "RESTORE", k, 0, v, "REPLACE")
		}
	}
}

// comebacks bring back mark 33 after raise has raised 34.
var comebacks = map[string]func(t *testing.T, b *bench, raise func()){
	"swapped and back": func(t *testing.T, b *bench, raise func()) {
		b.do(t, "SWAPDB", 0, 1)
		raise()
		b.do(t, "SWAPDB", 0, 1)
	},
	"statistics reset at the end": func(t *testing.T, b *bench, raise func()) {
		b.do(t, "SWAPDB", 0, 1)
		raise()
		b.do(t, "SWAPDB", 0, 1)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"statistics reset before and after each swap": func(t *testing.T, b *bench, raise func()) {
		b.do(t, "CONFIG", "RESETSTAT")
		b.do(t, "SWAPDB", 0, 1)
		b.do(t, "CONFIG", "RESETSTAT")
		raise()
		b.do(t, "CONFIG", "RESETSTAT")
		b.do(t, "SWAPDB", 0, 1)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"in transactions": func(t *testing.T, b *bench, raise func()) {
		swap := func() {
			_, err := b.admin.TxPipelined(t.Context(), func(p driver.Pipeliner) error {
				p.Do(t.Context(), "SWAPDB", 0, 1)
				return p.ConfigResetStat(t.Context()).Err()
			})
			must.Succeed(t, err)
		}
		swap()
		raise()
		swap()
	},
	"by scripts": func(t *testing.T, b *bench, raise func()) {
		b.in(t, 3, "SWAPDB", 0, 1)
		raise()
		b.in(t, 3, "SWAPDB", 1, 0)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"the other database is flushed before": func(t *testing.T, b *bench, raise func()) {
		b.do(t, "SWAPDB", 0, 1)
		raise()
		b.do(t, "FLUSHDB")
		b.do(t, "SWAPDB", 0, 1)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"three databases in a circle": func(t *testing.T, b *bench, raise func()) {
		b.do(t, "SWAPDB", 0, 1)
		b.do(t, "SWAPDB", 1, 15)
		raise()
		b.do(t, "SWAPDB", 0, 15)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"swapped with a copy": func(t *testing.T, b *bench, raise func()) {
		b.copyTo(t, 2, ownKeys...)
		raise()
		b.do(t, "SWAPDB", 0, 2)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"swapped with a copy made piece by piece": func(t *testing.T, b *bench, raise func()) {
		b.copyTo(t, 2, "ringfence:orders")
		raise()
		b.copyTo(t, 2, "ringfence", "ringfence:.original")
		b.do(t, "SWAPDB", 0, 2)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"swapped with a dump": func(t *testing.T, b *bench, raise func()) {
		restore := b.dump(t)
		raise()
		restore(1)
		b.do(t, "SWAPDB", 0, 1)
		b.do(t, "CONFIG", "RESETSTAT")
	},
	"restored from a dump": func(t *testing.T, b *bench, raise func()) {
		restore := b.dump(t)
		raise()
		restore(0)
	},
	"reloaded from an earlier file": func(t *testing.T, b *bench, raise func()) {
		b.do(t, "SAVE")
		raise()
		b.do(t, "DEBUG", "RELOAD", "NOSAVE")
	},
}

// The server is the same run with the same replication id all the time, so only its data can say
// that the mark is an earlier one.
func TestAMarkThatComesBackDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, comeBack := range comebacks {
		t.Run(name, func(t *testing.T) {
			debug := servers.RedisOptions{Args: []string{"--enable-debug-command", "yes"}}
			b := open(t, serverstest.Redis(t, debug))
			guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
			guard.raise(t, claim(33))
			comeBack(t, b, func() { guard.raise(t, claim(34)) })
			if b.do(t, "HGET", "ringfence:orders", "token") != "33" {
				t.Fatal("the older mark is not back, which proves nothing")
			}
			b.refuses(t, claim(33))
			must.Succeed(t, redismarks.Install(t.Context(), b.server.URL()))
			b.refuses(t, claim(33)) // an installation does not say what the mark was
			guard.raise(t, claim(34))
			if err := put(t, b.client(t, nil), claim(34), "fresh"); err != nil {
				t.Errorf("the newer leader: %v", err)
			}
			if err := put(t, b.client(t, nil), claim(33), "stale"); !errors.Is(err, fence.ErrStale) {
				t.Errorf("after the newer leader is back: %v", err)
			}
			if got := fmt.Sprint(b.written(t)); got != "[fresh]" {
				t.Errorf("written: %s", got)
			}
		})
	}
}

// refuses fails the test unless a command under a claim is told to raise the mark first, and a
// guard without a coordinator that remembers nothing refuses the claim.
func (b *bench) refuses(t *testing.T, c fence.Claim) {
	t.Helper()
	if err := put(t, b.client(t, nil), c, "stale"); !errors.Is(err, fence.ErrNotRaised) {
		t.Errorf("a command under %s: %v", c.Token, err)
	}
	err := b.admission(marks.Unverified{}).Admit(t.Context(), b.session(t).s, marks.Present(c))
	if _, refused := errors.AsType[*fence.Refusal](err); !refused {
		t.Errorf("a guard without a coordinator, asked to admit %s: %v", c.Token, err)
	}
}

// A copy of the registry lacks the sessions that were admitted after it was made.
func TestASessionThatACopyLacksIsEnded(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
	guard.admit(t, trusting{}, 5)
	b.copyTo(t, 1, ownKeys...)
	old := guard.admit(t, trusting{}, 5)
	b.do(t, "SWAPDB", 0, 1)
	b.do(t, "CONFIG", "RESETSTAT")
	guard.admit(t, trusting{}, 6)
	if err := old.Write(t.Context(), "deposed"); err == nil {
		t.Error("after a newer leader was admitted the older one can still write")
	}
}

// Nothing was written while the databases were swapped, so nothing is lost.
func TestASwapThatChangesNothingEndsNobody(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	c := b.admit(t, marks.Unverified{}, 5)
	b.do(t, "SWAPDB", 1, 2)
	b.do(t, "CONFIG", "RESETSTAT")
	b.do(t, "SWAPDB", 0, 1)
	b.do(t, "SWAPDB", 1, 0)
	b.admit(t, marks.Unverified{}, 5)
	if err := c.Write(t.Context(), "5"); err != nil {
		t.Errorf("the session was ended: %v", err)
	}
}

func TestAnInstallationLeavesOneMarker(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.do(t, "SWAPDB", 0, 1)
	must.Succeed(t, redismarks.Install(t.Context(), b.server.URL()))
	if b.in(t, 0, "EXISTS", "ringfence") != int64(1) || b.in(t, 1, "EXISTS", "ringfence") != int64(0) {
		t.Error("the marker is not in database 0 alone")
	}
}

func TestAServerMayHaveOneDatabaseOrMany(t *testing.T) {
	t.Parallel()
	for _, databases := range []string{"1", "1000"} {
		o := servers.RedisOptions{Args: []string{"--databases", databases}}
		b := open(t, serverstest.Redis(t, o))
		b.admit(t, marks.Unverified{}, 5)
		if err := put(t, b.client(t, nil), claim(5), "5"); err != nil {
			t.Errorf("%s databases: %v", databases, err)
		}
	}
}
