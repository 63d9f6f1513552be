package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
	"github.com/ringfence/ringfence/store"
	"github.com/ringfence/ringfence/store/redis"
)

// large is far above 2^53: as doubles it and its neighbours are the same.
const large fence.Token = 1<<60 + 5

// client is a driver of an application with its defaults, but for change.
func (b *bench) client(t testing.TB, change func(*driver.Options)) *driver.Client {
	t.Helper()
	o := &driver.Options{Addr: b.server.Addr()}
	if change != nil {
		change(o)
	}
	db := driver.NewClient(o)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (b *bench) raise(t testing.TB, c fence.Claim) {
	t.Helper()
	if err := b.admission(trusting{}).Raise(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// put runs one command under a claim.
func put(t testing.TB, db *driver.Client, c fence.Claim, value string) error {
	_, err := redis.Run(t.Context(), db, c, []any{"RPUSH", "written", value})
	return err
}

// until waits for what has to happen.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for patience := time.Now().Add(20 * time.Second); !happened(); {
		if time.Now().After(patience) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestCommandsRunUnderATokenInTheirOrder(t *testing.T) {
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(large))
	for _, protocol := range []int{2, 3} {
		db := b.client(t, func(o *driver.Options) { o.Protocol = protocol })
		b.do(t, "DEL", "a", "n", "l", "h")
		got, err := redis.Run(t.Context(), db, claim(large),
			[]any{"SET", "a", "1"}, []any{"GET", "a"}, []any{"GET", "none"}, []any{"INCRBY", []byte("n"), int64(-7)},
			[]any{"RPUSH", "l", "", "two words", "$5\r\nhello\r\n", 1.5, true, uint64(1<<63 + 1)}, []any{"LRANGE", "l", 0, -1},
			[]any{"LPUSH", "a", "x"}, []any{"MGET", "a", "none", "n"}, []any{"HSET", "h", "5", "4"}, []any{"HGETALL", "h"})
		if err != nil {
			t.Fatal(err)
		}
		failed, _ := got[6].(error)
		if failed == nil || !driver.HasErrorPrefix(failed, "WRONGTYPE") {
			t.Errorf("the reply of a command that fails: %v", got[6])
		}
		want := []any{"OK", "1", nil, int64(-7), int64(6), []any{"", "two words", "$5\r\nhello\r\n", "1.5", "1", "9223372036854775809"},
			got[6], []any{"1", nil, "-7"}, int64(1), []any{"5", "4"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("RESP%d: replies %#v, want %#v", protocol, got, want)
		}
	}
}

func TestBadCommandsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	db := driver.NewClient(&driver.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was opened")
		return nil, errors.New("closed")
	}})
	defer db.Close()
	for name, commands := range map[string][][]any{
		"none": {}, "an empty one": {{"PING"}, {}}, "too long": {make([]any, 7001)}, "what is no word": {{"SET", "a", struct{}{}}},
		"one that cannot be written": {{"SET", "a", unwritable{}}},
	} {
		_, err := redis.Run(t.Context(), db, claim(5), commands...)
		if err == nil || !strings.Contains(err.Error(), "nothing was run") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type unwritable struct{}

func (unwritable) MarshalBinary() ([]byte, error) { return nil, errors.New("not now") }

func TestTheLongestCommandIsRun(t *testing.T) {
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(5))
	longest := []any{"RPUSH", "l"}
	for len(longest) < 7000 {
		longest = append(longest, len(longest))
	}
	got, err := redis.Run(t.Context(), b.client(t, nil), claim(5), []any{"PING"}, longest, longest, []any{"PING"})
	if want := []any{"PONG", int64(6998), int64(2 * 6998), "PONG"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// Each row brings a mark into a state, and says how a claim is answered. Nothing may be written, but by the last.
func TestOnlyTheMarksOwnTokenRunsCommands(t *testing.T) {
	server := redisWith(t)
	foreign := claim(large)
	foreign.Issuer = "another"
	for _, row := range []struct {
		name  string
		state func(t *testing.T, b *bench)
		claim fence.Claim
		want  error
	}{
		{"an older token", nil, claim(large - 1), fence.ErrStale},
		{"a shorter token", nil, claim(9), fence.ErrStale},
		{"a newer token", nil, claim(large + 1), fence.ErrNotLeader},
		{"another issuer", nil, foreign, fence.ErrOtherIssuer},
		{"another resource", nil, fence.Claim{Resource: "stock", Token: large, Issuer: fence.Unverified}, fence.ErrNotLeader},
		{"the server was restarted", func(t *testing.T, b *bench) { b.restart(t) }, claim(large), fence.ErrNotLeader},
		{"the server was restarted, an older token", func(t *testing.T, b *bench) { b.restart(t) }, claim(large - 1), fence.ErrStale},
		{"the mark is lost", func(t *testing.T, b *bench) { b.do(t, "DEL", "ringfence:orders") }, claim(large), fence.ErrNotLeader},
		{"the mark was set back", func(t *testing.T, b *bench) { b.overwrite(t) }, claim(1), fence.ErrNotLeader},
		{"the marker is lost", func(t *testing.T, b *bench) { b.do(t, "DEL", "ringfence") }, claim(large), fence.ErrNotInstalled},
		{"everything is lost", func(t *testing.T, b *bench) { b.do(t, "FLUSHALL") }, claim(large), fence.ErrNotInstalled},
		{"another schema", func(t *testing.T, b *bench) { b.do(t, "HSET", "ringfence", "schema", "2") }, claim(large), fence.ErrNotInstalled},
		{"the mark is raised and older sessions are not ended", func(t *testing.T, b *bench) {
			b.admit(t, trusting{}, large)
			if _, err := b.store.Raise(t.Context(), claim(large+1)); err != nil {
				t.Fatal(err)
			}
		}, claim(large + 1), fence.ErrNotLeader},
		{"the mark", nil, claim(large), nil},
		{"the mark, and sessions under it", func(t *testing.T, b *bench) { b.admit(t, trusting{}, large) }, claim(large), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := openWith(t, server, redis.Options{Coordinated: true})
			b.do(t, "FLUSHALL")
			if err := redis.Install(t.Context(), server.URL()); err != nil {
				t.Fatal(err)
			}
			b.raise(t, claim(large))
			if row.state != nil {
				row.state(t, b)
			}
			b.do(t, "DEL", "written")
			err := put(t, b.client(t, nil), row.claim, "x")
			landed := len(b.written(t))
			if !errors.Is(err, row.want) || landed != 0 && row.want != nil || landed != 1 && row.want == nil {
				t.Fatalf("got %v and %d writes, want %v", err, landed, row.want)
			}
			if row.want == nil {
				return
			}
			r, ok := errors.AsType[*fence.Refusal](err)
			if !ok || r.Detail == "" || r.Hint == "" || r.Claim != row.claim || !strings.Contains(err.Error(), "nothing was run") {
				t.Errorf("the refusal does not say enough: %+v", err)
			}
			if errors.Is(err, fence.ErrNotLeader) && !strings.Contains(r.Hint, "raise the mark (Raiser), then try again") {
				t.Errorf("the hint is %q", r.Hint)
			}
		})
	}
}

// Both leaders write as fast as they can. Once the mark is raised the older one is refused, and never lands again.
func TestNothingOfAnOlderTokenLandsAfterARaise(t *testing.T) {
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(large))
	written := make(chan error, 1)
	old := b.client(t, nil)
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		var err error
		for start := time.Now(); err == nil && time.Since(start) < 5*time.Second; {
			err = put(t, old, claim(large), "old")
		}
		written <- err
	})
	until(t, "it writes", func() bool { return b.admin.LLen(t.Context(), "written").Val() >= 50 })
	b.raise(t, claim(large+1))
	if err := put(t, b.client(t, nil), claim(large+1), "new"); err != nil {
		t.Fatal(err)
	}
	if err := <-written; !errors.Is(err, fence.ErrStale) {
		t.Fatal(err)
	}
	if list := b.written(t); list[len(list)-1] != "new" {
		t.Fatal("an older leader wrote after a newer one")
	}
}

func TestALeaderWhoseRedisWasRestartedRaisesAndGoesOn(t *testing.T) {
	b := openWith(t, redisWith(t), redis.Options{Coordinated: true})
	if err := redis.Install(t.Context(), b.server.URL()); err != nil {
		t.Fatal(err)
	}
	b.raise(t, claim(large))
	db := b.client(t, func(o *driver.Options) { o.MaxRetries = -1 })
	if err := put(t, db, claim(large), "before"); err != nil {
		t.Fatal(err)
	}
	b.restart(t)
	err := put(t, db, claim(large), "unconfirmed")
	for errors.Is(err, redis.ErrUnknown) { // at first the driver may find dead connections
		err = put(t, db, claim(large), "unconfirmed")
	}
	if !errors.Is(err, fence.ErrNotLeader) {
		t.Fatalf("before the mark is raised again: %v", err)
	}
	b.raise(t, claim(large))
	if err := put(t, db, claim(large), "after"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(b.written(t)); got != "[before after]" {
		t.Error(got)
	}
}

func TestAnApplicationNeedsNoMoreThanItsACL(t *testing.T) {
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(5))
	rule := redis.RunACL("app", "secret") + " ~app:* +set +hset"
	as := func(rule string) *driver.Client {
		aclUser(t, b, rule)
		return b.client(t, func(o *driver.Options) { o.Username, o.Password = "app", "secret" })
	}
	got, err := redis.Run(t.Context(), as(rule), claim(5), []any{"SET", "app:a", 1}, []any{"SET", "b", 1}, []any{"HSET", "ringfence:orders", "token", "1"})
	if err != nil || got[0] != "OK" {
		t.Fatalf("%v, %v", got, err)
	}
	for _, i := range []int{1, 2} {
		if _, failed := got[i].(error); !failed {
			t.Errorf("command %d was run beyond its rights: %v", i, got[i])
		}
	}
	for _, right := range []string{"info", "hmget", "eval", "evalsha"} {
		b.do(t, "SCRIPT", "FLUSH")
		_, err := redis.Run(t.Context(), as(rule+" -"+right), claim(5), []any{"SET", "app:c", 1})
		if setup, ok := errors.AsType[*store.SetupError](err); !ok || setup.Hint == "" {
			t.Errorf("without %s: %v", right, err)
		}
	}
	if n := b.do(t, "EXISTS", "app:c"); n != int64(0) {
		t.Error("a command was run all the same")
	}
}

// A script that holds the server up is waited for, as long as the caller likes, and then nothing was run.
func TestABusyServerIsWaitedFor(t *testing.T) {
	b := open(t, serverstest.Redis(t, servers.RedisOptions{Args: []string{"--busy-reply-threshold", "10"}}))
	b.raise(t, claim(5))
	db := b.client(t, nil)
	if err := put(t, db, claim(5), "first"); err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() {
		held <- b.admin.Eval(context.WithoutCancel(t.Context()), `while true do end`, nil).Err()
	}()
	probe := b.client(t, nil)
	until(t, "it holds the server up", func() bool { return probe.Ping(t.Context()).Err() != nil })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := redis.Run(ctx, db, claim(5), []any{"RPUSH", "written", "too late"})
	if !errors.Is(err, redis.ErrNotRun) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller who gives up: %v", err)
	}
	patient := make(chan error, 1)
	go func() { patient <- put(t, db, claim(5), "second") }()
	if err := b.client(t, nil).ScriptKill(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	<-held
	if err := <-patient; err != nil {
		t.Errorf("a patient caller: %v", err)
	}
	if got := fmt.Sprint(b.written(t)); got != "[first second]" {
		t.Error(got)
	}
}

// BenchmarkRun tells what the check adds to one command.
func BenchmarkRun(b *testing.B) {
	bench := open(b, serverstest.Redis(b, servers.RedisOptions{}))
	bench.raise(b, claim(large))
	db := bench.client(b, nil)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if err := db.Incr(b.Context(), "n").Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fenced", func(b *testing.B) {
		for b.Loop() {
			if _, err := redis.Run(b.Context(), db, claim(large), []any{"INCR", "n"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
