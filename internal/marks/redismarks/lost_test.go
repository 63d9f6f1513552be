package redismarks_test

import (
	"context"
	"errors"
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

func claim(token fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: token, Issuer: elector.Unverified, Holder: "host"}
}

// trusting is an Authority that confirms every raise, like a coordinator that agrees.
type trusting struct{ marks.Unverified }

func (trusting) Confirm(_ context.Context, c fence.Claim, _ marks.Mark) (fence.Claim, error) {
	return c, nil
}

// agreed confirms a claim unchanged.
func agreed(c fence.Claim) marks.Confirm {
	return func(context.Context, marks.Mark) (fence.Claim, error) { return c, nil }
}

func (b *bench) admission(a marks.Authority) *marks.Admission {
	return &marks.Admission{Store: b.store, Authority: a, Timeout: time.Minute}
}

// admit opens a session and admits it through a new Admission, which remembers nothing. When the
// store ends every connection it ends the newcomer's too, so a second attempt may be needed.
func (b *bench) admit(t *testing.T, a marks.Authority, token fence.Token) *conn {
	t.Helper()
	for try := 1; ; try++ {
		c := b.session(t)
		t.Cleanup(c.Close)
		if err := b.admission(a).Admit(t.Context(), c.s, marks.Present(claim(token))); err != nil {
			t.Fatalf("admit %s: %v", token, err)
		}
		err := c.Write(t.Context(), token.String())
		if err == nil {
			return c
		}
		if try == 2 {
			t.Fatalf("the session under %s was ended: %v", token, err)
		}
	}
}

// do runs a command on the test's own connection; it must succeed.
func (b *bench) do(t *testing.T, args ...any) any {
	t.Helper()
	v, err := b.admin.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Each way of losing state bypasses the guard and leaves an older leader's session alive. Once a
// newer leader is admitted, that session must have ended.
func TestALostRegistryLeavesNoOlderSessionAlive(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, b *bench){
		"everything is flushed": func(t *testing.T, b *bench) { b.do(t, "FLUSHALL") },
		"the marker is deleted": func(t *testing.T, b *bench) { b.do(t, "DEL", "ringfence") },
		"the resource is deleted": func(t *testing.T, b *bench) {
			b.do(t, "DEL", "ringfence:orders")
		},
		"the resource is overwritten": func(t *testing.T, b *bench) { b.overwrite(t) },
		"the databases are swapped":   func(t *testing.T, b *bench) { b.do(t, "SWAPDB", 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
			guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
			old := guard.admit(t, trusting{}, 5)
			lose(t, b)
			if err := old.Write(t.Context(), "still the leader"); err != nil {
				t.Fatal("the loss itself ended the session, which proves nothing")
			}
			guard.admit(t, trusting{}, 6)
			if err := old.Write(t.Context(), "deposed"); err == nil {
				t.Fatal("after a newer leader was admitted the older one can still write")
			}
		})
	}
}

// overwrite turns the resource into a copy from before the leader's session was recorded, under
// another epoch.
func (b *bench) overwrite(t *testing.T) {
	b.do(t, "HSET", "ringfence:orders", "token", "1", "epoch", "an earlier one")
	fields, err := b.admin.HKeys(t.Context(), "ringfence:orders").Result()
	must.Succeed(t, err)
	for _, f := range fields {
		if len(f) > 8 && f[:8] == "session:" {
			b.do(t, "HDEL", "ringfence:orders", f)
		}
	}
}

func TestWithoutACoordinatorALostMarkerIsNotInstalled(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.admit(t, marks.Unverified{}, 5)
	b.do(t, "FLUSHALL")
	err := b.admission(marks.Unverified{}).Admit(t.Context(), b.session(t).s,
		marks.Present(claim(4)))
	if !errors.Is(err, fence.ErrNotInstalled) {
		t.Fatalf("admit: %v", err)
	}
	if _, err := b.store.Raise(t.Context(), marks.SessionID{}, claim(6),
		agreed(claim(6))); !errors.Is(err, fence.ErrNotInstalled) {
		t.Fatalf("raise: %v", err)
	}
	if err := b.store.Probe(t.Context()); !errors.Is(err, fence.ErrNotInstalled) {
		t.Fatalf("probe: %v", err)
	}
	_, err = b.store.Adopt(t.Context(), claim(6), "alice")
	if !errors.Is(err, fence.ErrNotInstalled) {
		t.Fatalf("adopt: %v", err)
	}
	if n := b.admin.Exists(t.Context(), "ringfence").Val(); n != 0 {
		t.Fatal("a call has made a new marker")
	}
}

// An older leader must not raise a mark that was lost, whatever has happened to the marker since.
func TestWithoutACoordinatorAnOlderTokenCannotRaiseALostMark(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.admit(t, marks.Unverified{}, 5)
	b.do(t, "DEL", "ringfence:orders")
	err := b.admission(marks.Unverified{}).Admit(t.Context(), b.session(t).s,
		marks.Present(claim(4)))
	if !errors.Is(err, fence.ErrMarkInDoubt) {
		t.Fatalf("after the resource was lost: %v", err)
	}
	b.do(t, "FLUSHALL")
	coordinated := openWith(t, b.server, redismarks.Options{Coordinated: true})
	other := claim(1)
	other.Resource = "stock"
	// this makes the marker again
	if _, err := coordinated.store.Raise(t.Context(), marks.SessionID{}, other,
		agreed(other)); err != nil {
		t.Fatal(err)
	}
	err = b.admission(marks.Unverified{}).Admit(t.Context(), b.session(t).s,
		marks.Present(claim(4)))
	if !errors.Is(err, fence.ErrMarkInDoubt) {
		t.Fatalf("after the marker was made again: %v", err)
	}
}

// An ordinary restart locks nobody out: the next session confirms the mark, and the store ends
// every connection from before that.
func TestAfterARestartWithItsDataTheLeaderIsAdmittedAgainWithoutAnOperator(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	c := b.session(t)
	if err := b.admission(marks.Unverified{}).Admit(t.Context(), c.s,
		marks.Present(claim(5))); err != nil {
		t.Fatal(err)
	}
	b.restart(t)
	a, stranger, newcomer := b.admission(marks.Unverified{}), b.session(t), b.session(t)
	if err := a.Admit(t.Context(), b.session(t).s,
		marks.Present(claim(4))); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("an older token: %v", err)
	}
	if err := a.Admit(t.Context(), newcomer.s, marks.Present(claim(5))); err != nil {
		t.Fatalf("the same token: %v", err)
	}
	if err := newcomer.Write(t.Context(), "5"); err != nil {
		t.Errorf("the newcomer was ended with the others: %v", err)
	}
	if err := stranger.Write(t.Context(), "x"); err == nil {
		t.Error("a connection from before the mark was confirmed is still alive")
	}
}

func TestARestartWithoutPersistenceIsALoss(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.admit(t, marks.Unverified{}, 5)
	b.restart(t)
	err := b.admission(marks.Unverified{}).Admit(t.Context(), b.session(t).s,
		marks.Present(claim(5)))
	if !errors.Is(err, fence.ErrNotInstalled) {
		t.Fatalf("without a coordinator: %v", err)
	}
	guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
	guard.admit(t, trusting{}, 5)
	if err := guard.admission(trusting{}).Admit(t.Context(), b.session(t).s,
		marks.Present(claim(4))); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("an older token: %v", err)
	}
}

func TestEvictionIsALoss(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	guard := openWith(t, b.server, redismarks.Options{Coordinated: true})
	old := guard.admit(t, trusting{}, 5)
	b.do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "1")
	for b.admin.DBSize(t.Context()).Val() > 0 {
		_ = b.admin.Set(t.Context(), "x", "y", 0).Err() // each attempt evicts keys and is refused
	}
	b.do(t, "CONFIG", "SET", "maxmemory", "0")
	guard.admit(t, trusting{}, 6)
	if err := old.Write(t.Context(), "deposed"); err == nil {
		t.Fatal("after a newer leader was admitted the older one can still write")
	}
}

func TestInstallMayBeRepeatedAndKeepsMarks(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	c := b.admit(t, marks.Unverified{}, 5)
	must.Succeed(t, redismarks.Install(t.Context(), b.server.URL()))
	if err := c.Write(t.Context(), "x"); err != nil {
		t.Fatal("the second install ended a session")
	}
	marks, err := b.store.Marks(t.Context(), "orders")
	if err != nil || len(marks) != 1 || marks[0].Token != 5 || !marks[0].Confirmed {
		t.Fatalf("marks %+v, %v", marks, err)
	}
	b.do(t, "HSET", "ringfence", "schema", "5")
	if err := redismarks.Install(t.Context(), b.server.URL()); err == nil {
		t.Error("installed over a newer schema")
	}
	if err := b.store.Probe(t.Context()); !errors.Is(err, fence.ErrNotInstalled) {
		t.Errorf("probe over a newer schema: %v", err)
	}
}

// Guards of an earlier version know nothing of candidates, so what they have recorded counts as
// lost. The marks stay, and whether authorization is on.
func TestAnEarlierSchemaCountsAsLost(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"1", "2", "3"} {
		b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
		must.Succeed(t, b.store.Allow(t.Context(), "default", "*"))
		must.Succeed(t, b.store.Authorize(t.Context(), true))
		old := b.admit(t, marks.Unverified{}, 5)
		b.do(t, "HSET", "ringfence", "schema", schema)
		b.do(t, "HDEL", "ringfence:orders", "candidate", "rolled_back")
		must.Succeed(t, redismarks.Install(t.Context(), b.server.URL()))
		if err := old.Write(t.Context(), "x"); err == nil {
			t.Errorf("version %s: the install ended no session", schema)
		}
		if got := b.do(t, "HGET", "ringfence", "schema"); got != "4" {
			t.Errorf("version %s: the schema is %v after an install", schema, got)
		}
		all, err := b.store.Marks(t.Context(), "orders")
		if err != nil || len(all) != 1 || all[0].Token != 5 || all[0].Sessions < 0 {
			t.Errorf("version %s: marks %+v, %v", schema, all, err)
		}
		if on, err := b.store.Authorization(t.Context()); err != nil || !on.On {
			t.Errorf("version %s: authorization %+v, %v", schema, on, err)
		}
	}
}

// While a script of the older leader runs, the newer one waits: no session is admitted.
func TestTheNewerLeaderWaitsForALongScriptOfTheOlder(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{
		Args: []string{"--busy-reply-threshold", "10"},
	}))
	old := b.admit(t, marks.Unverified{}, 5)
	ended := make(chan error, 1)
	go func() {
		const script = `redis.call('RPUSH', 'written', '5')
			while redis.call('LLEN', 'written') > 0 do end`
		ended <- old.link.Eval(context.WithoutCancel(t.Context()), script, nil).Err()
	}()
	for b.admin.Ping(t.Context()).Err() == nil { // until the script blocks the server
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	fresh := marks.SessionID{ID: 1 << 40, Run: old.s.Run}
	err := b.admission(marks.Unverified{}).Admit(ctx, fresh, marks.Present(claim(6)))
	if !errors.Is(err, fence.ErrUnrevoked) {
		t.Fatalf("admitted while a script runs: %v", err)
	}
	if err := b.server.Kill(); err != nil { // nothing else ends a script that has written
		t.Fatal(err)
	}
	<-ended
}

// Guards that repair a lost registry at the same time end each other's connections, and all of them
// succeed.
func TestSeveralGuardsRepairALossAtOnce(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	const guards = 4
	var stores [guards]*redismarks.Store
	for i := range stores {
		stores[i] = openWith(t, b.server, redismarks.Options{Coordinated: true}).store
	}
	for range 5 {
		b.do(t, "FLUSHALL")
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() {
				c := claim(5)
				c.Resource = fence.Resource("r" + string(rune('a'+i/2))) // two for each resource
				if _, err := s.Raise(t.Context(), marks.SessionID{}, c, agreed(c)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		marks, err := stores[0].Marks(t.Context())
		if err != nil || len(marks) != 2 || !marks[0].Confirmed || !marks[1].Confirmed {
			t.Fatalf("marks %+v, %v", marks, err)
		}
	}
}
