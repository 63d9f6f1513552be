package redisstore_test

import (
	"os"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/redisstore"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// patience is how long a busy server may take to answer.
const patience = 30 * time.Second

// large is a token that a Lua number cannot represent exactly.
const large fence.Token = 1<<60 + 5

func claim(token fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified, Holder: "host"}
}

// bench is a server with the store installed, and a connection of the test's own.
type bench struct {
	server *servers.Redis
	admin  *driver.Client
}

func open(t *testing.T, server *servers.Redis) *bench {
	t.Helper()
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	b := &bench{server: server}
	b.admin = b.client(t, func(o *driver.Options) { o.Protocol = 2 })
	return b
}

func (b *bench) client(t *testing.T, change func(*driver.Options)) *driver.Client {
	t.Helper()
	o := &driver.Options{
		Addr: b.server.Addr(), DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	change(o)
	db := driver.NewClient(o)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (b *bench) do(t *testing.T, args ...any) any {
	t.Helper()
	v, err := b.admin.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func (b *bench) written(t *testing.T) []string {
	t.Helper()
	list, err := b.admin.LRange(t.Context(), "written", 0, -1).Result()
	must.Succeed(t, err)
	return list
}

func put(t *testing.T, db *driver.Client, c fence.Claim, value string) error {
	_, err := new(redisstore.Tx).Do("RPUSH", "written", value).Exec(t.Context(), db, c)
	return err
}

// until waits until happened returns true.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	if !poll.Until(patience, happened) {
		t.Fatalf("timed out before %s", what)
	}
}
