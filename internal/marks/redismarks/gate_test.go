package redismarks_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Each row brings a mark into a state and says how a claim is answered. Only the claims of the last
// rows may write.
func TestOnlyTheMarksOwnTokenRunsCommands(t *testing.T) {
	t.Parallel()
	server := redisWith(t)
	otherIssuer := claim(large)
	otherIssuer.Issuer = "another"
	for _, row := range []struct {
		name  string
		state func(t *testing.T, b *bench)
		claim fence.Claim
		want  error
	}{
		{"an older token", nil, claim(large - 1), fence.ErrStale},
		{"a shorter token", nil, claim(9), fence.ErrStale},
		{"a newer token", nil, claim(large + 1), fence.ErrNotRaised},
		{"another issuer", nil, otherIssuer, fence.ErrOtherIssuer},
		{"another resource", nil, fence.Claim{Resource: "stock", Token: large,
			Issuer: elector.Unverified}, fence.ErrNotRaised},
		{"token 0 of a resource without a mark", nil, fence.Claim{Resource: "stock",
			Issuer: elector.Unverified}, fence.ErrNotRaised},
		{"token 0 of an adopted resource", func(t *testing.T, b *bench) {
			_, err := b.store.Adopt(t.Context(), claim(0), "operator")
			must.Succeed(t, err)
		}, claim(0), fence.ErrNotRaised},
		{"the server was restarted", func(t *testing.T, b *bench) { b.restart(t) }, claim(large),
			fence.ErrNotRaised},
		{"the server was restarted, an older token", func(t *testing.T, b *bench) { b.restart(t) },
			claim(large - 1), fence.ErrStale},
		{"the mark is lost", func(t *testing.T, b *bench) { b.do(t, "DEL", "ringfence:orders") },
			claim(large), fence.ErrNotRaised},
		{"the mark was rolled back", func(t *testing.T, b *bench) { b.overwrite(t) }, claim(1),
			fence.ErrNotRaised},
		{"the marker is lost", func(t *testing.T, b *bench) { b.do(t, "DEL", "ringfence") },
			claim(large), fence.ErrNotRaised},
		{"the marker is lost, an older token", func(t *testing.T, b *bench) {
			b.do(t, "DEL", "ringfence")
		}, claim(large - 1), fence.ErrStale},
		{"everything is lost", func(t *testing.T, b *bench) { b.do(t, "FLUSHALL") }, claim(large),
			fence.ErrNotInstalled},
		{"another schema", func(t *testing.T, b *bench) {
			b.do(t, "HSET", "ringfence", "schema", "5")
		}, claim(large), fence.ErrNotInstalled},
		{"the mark is raised and older sessions are not ended", func(t *testing.T, b *bench) {
			b.admit(t, trusting{}, large)
			if _, err := b.store.Raise(t.Context(), marks.SessionID{}, claim(large+1),
				agreed(claim(large+1))); err != nil {
				t.Fatal(err)
			}
		}, claim(large + 1), fence.ErrNotRaised},
		{"the mark", nil, claim(large), nil},
		{"the mark, and sessions under it", func(t *testing.T, b *bench) {
			b.admit(t, trusting{}, large)
		}, claim(large), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := openWith(t, server, redismarks.Options{Coordinated: true})
			b.do(t, "FLUSHALL")
			must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
			b.raise(t, claim(large))
			if row.state != nil {
				row.state(t, b)
			}
			b.do(t, "DEL", "written")
			err := put(t, b.client(t, nil), row.claim, "x")
			landed := len(b.written(t))
			if !errors.Is(err, row.want) || landed != 0 && row.want != nil ||
				landed != 1 && row.want == nil {
				t.Fatalf("got %v and %d writes, want %v", err, landed, row.want)
			}
			if row.want == nil {
				return
			}
			r, ok := errors.AsType[*fence.Refusal](err)
			if !ok || r.Detail == "" || r.Hint == "" || r.Claim != row.claim ||
				!strings.Contains(err.Error(), "nothing was run") {
				t.Errorf("the refusal is incomplete: %+v", err)
			}
			if errors.Is(err, fence.ErrNotRaised) &&
				!strings.Contains(r.Hint, "raise the mark with this token, then try again") {
				t.Errorf("the hint is %q", r.Hint)
			}
		})
	}
}

// The older leader writes as fast as it can. Once the mark is raised it is refused, and none of its
// writes succeeds again.
func TestNoCommandOfAnOlderTokenRunsAfterARaise(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(large))
	written := make(chan error, 1)
	old := b.client(t, nil)
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		var err error
		for start := time.Now(); err == nil && time.Since(start) < time.Minute; {
			err = put(t, old, claim(large), "old")
		}
		written <- err
	})
	until(t, "the older leader writes", func() bool {
		return b.admin.LLen(t.Context(), "written").Val() >= 50
	})
	b.raise(t, claim(large+1))
	must.Succeed(t, put(t, b.client(t, nil), claim(large+1), "new"))
	if err := <-written; !errors.Is(err, fence.ErrStale) {
		t.Fatal(err)
	}
	if list := b.written(t); list[len(list)-1] != "new" {
		t.Fatal("an older leader wrote after a newer one")
	}
}

func TestALeaderRaisesAgainAfterARestartOfRedis(t *testing.T) {
	t.Parallel()
	b := openWith(t, redisWith(t), redismarks.Options{Coordinated: true})
	must.Succeed(t, redismarks.Install(t.Context(), b.server.URL()))
	b.raise(t, claim(large))
	db := b.client(t, func(o *driver.Options) { o.MaxRetries = -1 })
	must.Succeed(t, put(t, db, claim(large), "before"))
	b.restart(t)
	err := put(t, db, claim(large), "unconfirmed")
	for errors.Is(err, redismarks.ErrUnknown) { // at first the driver may find dead connections
		err = put(t, db, claim(large), "unconfirmed")
	}
	if !errors.Is(err, fence.ErrNotRaised) {
		t.Fatalf("before the mark is raised again: %v", err)
	}
	b.raise(t, claim(large))
	must.Succeed(t, put(t, db, claim(large), "after"))
	if got := fmt.Sprint(b.written(t)); got != "[before after]" {
		t.Error(got)
	}
}
