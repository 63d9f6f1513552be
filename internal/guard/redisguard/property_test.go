package redisguard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestWritesThroughGuardsNeverGoBackToAnOlderToken(t *testing.T) {
	t.Parallel()
	h := history{serverstest.Redis(t, servers.RedisOptions{})}
	guards := guardtest.NewFleet(3, func() *guarded {
		return before(t, h.server, setup{drain: time.Nanosecond})
	})
	property := &guardtest.Histories{
		Open: func(
			ctx context.Context, r *rand.Rand, resource string, token fence.Token,
		) (guardtest.Writer, error) {
			name := fmt.Sprintf("fence.%s=%s", resource, token)
			o := &driver.Options{Addr: guards.Pick(r).Addr, ClientName: name}
			return newLease(ctx, o, resource, token)
		},
		Written: h.written, Fault: guards.Replace, Moves: 120,
	}
	property.FindNoStaleWrite(t)
}

// Without a guard the same work must find stale writes, or the test above proves nothing.
func TestWithoutAGuardTheSameWorkFindsStaleWrites(t *testing.T) {
	t.Parallel()
	h := history{serverstest.Redis(t, servers.RedisOptions{})}
	property := &guardtest.Histories{
		Open: func(
			ctx context.Context, _ *rand.Rand, resource string, token fence.Token,
		) (guardtest.Writer, error) {
			return newLease(ctx, &driver.Options{Addr: h.server.Addr()}, resource, token)
		},
		Written: h.written, Moves: 120,
	}
	property.FindStaleWrites(t)
}

// history is a server whose lists keep the order of the writes.
type history struct{ server *servers.Redis }

func (h history) written(t testing.TB, resource string) []fence.Token {
	t.Helper()
	c := driver.NewClient(&driver.Options{Addr: h.server.Addr()})
	defer c.Close()
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
	return tokens
}

// lease is a leader's connection.
type lease struct {
	client *driver.Client
	conn   *driver.Conn
	key    string
	value  string
	queued bool // a write is queued in MULTI
}

func newLease(
	ctx context.Context, o *driver.Options, resource string, token fence.Token,
) (guardtest.Writer, error) {
	o.MaxRetries = -1
	client := driver.NewClient(o)
	l := &lease{
		client: client, conn: client.Conn(), key: "history:" + resource, value: token.String(),
	}
	if err := l.conn.Ping(ctx).Err(); err != nil {
		l.Close(nil)
		return nil, err
	}
	return l, nil
}

// Close is guardtest.Writer's.
func (l *lease) Close(*rand.Rand) { _ = l.conn.Close(); _ = l.client.Close() }

// Write is guardtest.Writer's: a command, a pipeline, a script, or a transaction whose EXEC a later
// Write sends.
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
		err = l.conn.Eval(ctx, "return redis.call('RPUSH', KEYS[1], ARGV[1])",
			[]string{l.key}, l.value).Err()
	default:
		if err = l.conn.Do(ctx, "MULTI").Err(); err == nil {
			err = l.conn.Do(ctx, "RPUSH", l.key, l.value).Err()
		}
		l.queued = err == nil
	}
	return err
}
