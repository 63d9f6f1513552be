package redismarks_test

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// fill has the server use more than maxmemory.
func (b *bench) fill(t *testing.T) {
	t.Helper()
	b.do(t, "CONFIG", "SET", "maxmemory", "1")
	if err := b.admin.Set(t.Context(), "a", "b", 0).Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "OOM") {
		t.Fatalf("the server has memory left: %v", err)
	}
}

// Whatever is lost, a newer leader is admitted while Redis is over maxmemory, and the older one
// ended: it can still delete.
// It changes how all scripts run, so it runs alone.
func TestOverMaxmemoryANewerLeaderIsAdmitted(t *testing.T) {
	losses := map[string][]any{
		"nothing":      {"PING"},
		"everything":   {"FLUSHALL"},
		"the marker":   {"DEL", "ringfence"},
		"the resource": {"DEL", "ringfence:orders"},
	}
	for form, use := range map[string]func() (restore func()){
		"flagged": func() func() { return func() {} }, "plain": redismarks.PlainScripts,
	} {
		for name, loss := range losses {
			t.Run(form+", "+name, func(t *testing.T) {
				defer use()()
				b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
				guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
				old := guard.admit(t, trusting{}, 5)
				b.do(t, loss...)
				b.fill(t)
				guard.remove(t, old, true)
				newer := b.session(t)
				t.Cleanup(newer.Close)
				err := guard.admission(trusting{}).Admit(t.Context(), newer.s, marks.Present(claim(6)))
				if err != nil {
					t.Fatal(err)
				}
				guard.remove(t, old, false)
				if err := redismarks.Install(t.Context(), b.server.URL()); err != nil {
					t.Error(err)
				}
				if _, err := guard.store.Adopt(t.Context(), claim(1), "operator"); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// remove deletes a key in a session, which may be ended.
func (b *bench) remove(t *testing.T, c *conn, lives bool) {
	t.Helper()
	if err := c.link.Del(t.Context(), "a").Err(); (err == nil) != lives {
		t.Fatalf("the session lives: %v; want %v", err, lives)
	}
}
