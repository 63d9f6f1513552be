package redisguard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// kept returns a raiser that keeps its connection.
func kept(t *testing.T, url string) redismarks.Raiser {
	t.Helper()
	k := &marks.StoreCache{}
	t.Cleanup(k.Close)
	return redismarks.Raiser{URL: url, Kept: k}
}

func order(token fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified, Holder: "host"}
}

func (g *guarded) raised(r redismarks.Raiser, token fence.Token) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	if err := r.Raise(ctx, order(token)); err != nil {
		g.t.Fatalf("raise to %d: %v", token, err)
	}
	found, err := g.store.Marks(ctx, "orders")
	if err != nil || len(found) != 1 || found[0].Token != token {
		g.t.Errorf("the mark is %v, want %d: %v", found, token, err)
	}
}

// connections returns how many connections the server has accepted. The reader keeps its own.
func (g *guarded) connections() int {
	g.t.Helper()
	info, err := g.direct().Info(g.t.Context(), "stats").Result()
	must.Succeed(g.t, err)
	_, after, _ := strings.Cut(info, "total_connections_received:")
	n, err := strconv.Atoi(strings.Fields(after)[0])
	must.Succeed(g.t, err)
	return n
}

// The first raise looks for a guard with one connection, and raises with another.
func TestManyDirectRaisesConnectTwice(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[encrypted], func(t *testing.T) {
			var g *guarded
			var url string
			if encrypted {
				e := encryptedRedis(t, "no")
				g, url = before(t, e.server, setup{}), "rediss://"+e.address+"?sslrootcert="+e.authority.File
			} else {
				g = fresh(t)
				url = g.server.URL()
			}
			r := kept(t, url)
			g.raised(r, 1)
			counted := g.connections()
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					c := order(7)
					c.Resource = fence.Resource(fmt.Sprint("job", i))
					must.Report(t, r.Raise(t.Context(), c))
				})
			}
			all.Wait()
			for token := range fence.Token(8) {
				g.raised(r, 2+token)
			}
			if n := g.connections() - counted - 1; n != 0 { // connections makes one
				t.Errorf("16 raises have opened %d connections", n)
			}
		})
	}
}

func TestADirectRaiseAfterARestartRaisesOnTheNewRun(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t,
		servers.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}}),
		setup{})
	r := kept(t, g.server.URL())
	g.raised(r, 5)
	for _, token := range []fence.Token{5, 6} { // confirms the mark of the earlier run; raises it
		must.Succeed(t, g.server.Kill())
		if err := r.Raise(t.Context(), order(token)); err == nil {
			t.Error("a raise has succeeded without a server")
		}
		must.Succeed(t, g.server.Start(t.Context()))
		g.raised(r, token)
	}
	if err := r.Raise(t.Context(), order(5)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token: %v", err)
	}
	g.direct().FlushAll(t.Context())
	if err := r.Raise(t.Context(), order(7)); !errors.Is(err, fence.ErrNotInstalled) {
		t.Errorf("without a marker: %v", err)
	}
}

// The address leads to a guard after the first raise.
func TestARaiserUsesAGuardThatIsPutInFront(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	relay := serverstest.NewRelay(t, g.server.Addr())
	r := kept(t, "redis://"+relay.Addr())
	g.raised(r, 5)
	relay.To(g.Addr)
	for token := fence.Token(6); token < 9; token++ {
		g.raised(r, token)
		if n := g.Metric("ringfence_admissions_total", "admitted"); int(n) != int(token)-5 {
			t.Errorf("after the raise to %d the guard has admitted %g sessions", token, n)
		}
	}
}
