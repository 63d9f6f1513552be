package redismarks_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// patience is how long a busy server may take to answer.
const patience = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestRedisKeepsTheContract(t *testing.T) {
	t.Parallel()
	markstest.Run(t, func(t testing.TB) markstest.Fixture { return open(t, redisWith(t)).Fixture })
}

// redisWith starts a server for this test alone that keeps its data over a restart.
func redisWith(t testing.TB, args ...string) *servers.Redis {
	return serverstest.Redis(t, servers.RedisOptions{
		Args: append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...),
	})
}

// bench is a server with the store, and a connection of the test's own to inspect and change the
// data.
type bench struct {
	markstest.Fixture
	server *servers.Redis
	store  *redismarks.Store
	admin  *driver.Client
}

func open(t testing.TB, server *servers.Redis) *bench {
	t.Helper()
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	return openWith(t, server, redismarks.Options{})
}

func openWith(t testing.TB, server *servers.Redis, o redismarks.Options) *bench {
	t.Helper()
	s, err := redismarks.Open(t.Context(), server.URL(), o)
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	b := &bench{server: server, store: s, admin: driver.NewClient(&driver.Options{
		Addr: server.Addr(), Protocol: 2, PipelinePoolSize: -1, DialTimeout: patience,
		ReadTimeout: patience, WriteTimeout: patience,
	})}
	t.Cleanup(func() { _ = b.admin.Close() })
	b.Fixture = markstest.Fixture{
		Store: s, Admin: s, Connect: b.connect, Written: b.written, Audit: b.audit,
		Restart: b.restart,
	}
	return b
}

func (b *bench) restart(t testing.TB) {
	t.Helper()
	must.Succeed(t, b.server.Kill())
	must.Succeed(t, b.server.Start(t.Context()))
}

func (b *bench) written(t testing.TB) []string {
	t.Helper()
	list, err := b.admin.LRange(t.Context(), "written", 0, -1).Result()
	must.Succeed(t, err)
	return list
}

func (b *bench) audit(t testing.TB, r fence.Resource) []markstest.Adoption {
	t.Helper()
	entries, err := b.admin.XRange(t.Context(), "ringfence:.audit", "-", "+").Result()
	must.Succeed(t, err)
	var list []markstest.Adoption
	for _, e := range entries {
		if e.Values["resource"] != string(r) {
			continue
		}
		a := markstest.Adoption{
			By: e.Values["by"].(string), From: fence.Issuer(e.Values["from"].(string)),
			To: fence.Issuer(e.Values["to"].(string)),
		}
		a.Before, _ = fence.ParseToken(e.Values["before"].(string))
		a.After, _ = fence.ParseToken(e.Values["after"].(string))
		list = append(list, a)
	}
	return list
}

// conn is a client's session: one connection that does not reconnect.
type conn struct {
	b    *bench
	db   *driver.Client
	link *driver.Conn
	s    marks.SessionID
}

func (b *bench) connect(t testing.TB) markstest.Conn { return b.session(t) }

func (b *bench) session(t testing.TB) *conn {
	t.Helper()
	dialed := false
	c := &conn{b: b}
	c.db = driver.NewClient(&driver.Options{
		Addr: b.server.Addr(), Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		PoolSize: 1, DialerRetries: 1,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		OnConnect: func(context.Context, *driver.Conn) error {
			if dialed {
				return fmt.Errorf("a session is one connection")
			}
			dialed = true
			return nil
		},
	})
	c.link = c.db.Conn()
	id, err := c.link.ClientID(t.Context()).Result()
	must.Succeed(t, err)
	nonce := fmt.Sprintf("nonce-%d", id)
	must.Succeed(t, c.link.ClientSetName(t.Context(), nonce).Err())
	if c.s, err = b.store.Identify(t.Context(), id, nonce); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *conn) Session() marks.SessionID { return c.s }

func (c *conn) Write(ctx context.Context, value string) error {
	return c.link.RPush(ctx, "written", value).Err()
}

func (c *conn) Leave(ctx context.Context, value string) error {
	if err := c.link.Do(ctx, "MULTI").Err(); err != nil {
		return err
	}
	return c.link.Do(ctx, "RPUSH", "written", value).Err()
}

// Close has the server end the connection, so that the session has ended on return.
func (c *conn) Close() {
	ctx := context.Background()
	info, _ := c.b.admin.Info(ctx, "server").Result()
	if strings.Contains(info, c.s.Run) { // in another run the id belongs to another client
		_ = c.b.admin.Do(ctx, "CLIENT", "KILL", "ID", c.s.ID).Err()
	}
	_ = c.link.Close()
	_ = c.db.Close()
}
