package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestWritesThroughGuardsNeverGoBackToAnOlderToken(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	guards := &fleet{t: t, server: server}
	for range 3 {
		guards.all = append(guards.all, guards.start())
	}
	h := &guardtest.Histories{Open: guards.open, Fault: guards.replaceOne, Moves: 120}
	h.Play(t)
	if bad := descents(t, server); len(bad) > 0 {
		t.Errorf("%d writes of deposed leaders, such as %s", len(bad), bad[0])
	}
}

// The same without a guard: were no violation found here, the test above would prove nothing.
func TestWithoutAGuardTheSameWorkFindsStaleWrites(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	h := &guardtest.Histories{Moves: 120, Open: func(ctx context.Context, _ *rand.Rand, resource string, token fence.Token) (guardtest.Session, error) {
		return newLease(ctx, &driver.Options{Addr: server.Addr()}, resource, token)
	}}
	h.Play(t)
	bad := descents(t, server)
	t.Logf("%d stale writes", len(bad))
	if len(bad) == 0 {
		t.Error("no stale write was found where nothing prevents them")
	}
}

// descents asks the lists, whose order is the order of the writes.
func descents(t *testing.T, server *servers.Redis) (bad []string) {
	t.Helper()
	c := driver.NewClient(&driver.Options{Addr: server.Addr()})
	defer c.Close()
	for _, resource := range guardtest.Resources {
		list, err := c.LRange(t.Context(), "history:"+resource, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		tokens := make([]fence.Token, len(list))
		for i, text := range list {
			if tokens[i], err = fence.ParseToken(text); err != nil {
				t.Fatal(err)
			}
		}
		bad = append(bad, guardtest.Descents(resource, tokens)...)
	}
	return bad
}

// fleet is several guards of one server, which are stopped hard and replaced now and then.
type fleet struct {
	t      *testing.T
	server *servers.Redis
	mu     sync.Mutex
	all    []*guarded
}

func (f *fleet) start() *guarded { return before(f.t, f.server, setup{drain: time.Nanosecond}) }

func (f *fleet) open(ctx context.Context, r *rand.Rand, resource string, token fence.Token) (guardtest.Session, error) {
	f.mu.Lock()
	g := f.all[r.IntN(len(f.all))]
	f.mu.Unlock()
	return newLease(ctx, &driver.Options{Addr: g.addr, ClientName: fmt.Sprintf("fence.%s=%s", resource, token)}, resource, token)
}

func (f *fleet) replaceOne(r *rand.Rand) {
	fresh := f.start()
	f.mu.Lock()
	i := r.IntN(len(f.all))
	old := f.all[i]
	f.all[i] = fresh
	f.mu.Unlock()
	old.stop()
}

// lease is one connection of go-redis.
type lease struct {
	client *driver.Client
	conn   *driver.Conn
	key    string
	value  string
	queued bool // a write waits in MULTI
}

func newLease(ctx context.Context, o *driver.Options, resource string, token fence.Token) (guardtest.Session, error) {
	o.MaxRetries = -1
	client := driver.NewClient(o)
	l := &lease{client: client, conn: client.Conn(), key: "history:" + resource, value: token.String()}
	if err := l.conn.Ping(ctx).Err(); err != nil {
		l.Close(nil)
		return nil, err
	}
	return l, nil
}

// Close is guardtest.Session's.
func (l *lease) Close(*rand.Rand) { _ = l.conn.Close(); _ = l.client.Close() }

// Write is guardtest.Session's: a command, a pipeline, a script, or a transaction whose EXEC may come much later.
func (l *lease) Write(ctx context.Context, r *rand.Rand) (err error) {
	if l.queued {
		l.queued = false
		return l.conn.Do(ctx, "EXEC").Err()
	}
	switch r.IntN(4) {
	case 0:
		err = l.conn.RPush(ctx, l.key, l.value).Err()
	case 1:
		_, err = l.conn.Pipelined(ctx, func(p driver.Pipeliner) error {
			p.RPush(ctx, l.key, l.value)
			p.RPush(ctx, l.key, l.value)
			return nil
		})
	case 2:
		err = l.conn.Eval(ctx, "return redis.call('RPUSH', KEYS[1], ARGV[1])", []string{l.key}, l.value).Err()
	default:
		if err = l.conn.Do(ctx, "MULTI").Err(); err == nil {
			err = l.conn.Do(ctx, "RPUSH", l.key, l.value).Err()
		}
		l.queued = err == nil
	}
	return err
}
