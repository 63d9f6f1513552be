package redismarks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// large is far above 2^53, where a double cannot distinguish it from its neighbours.
const large fence.Token = 1<<60 + 5

// client makes an application's driver with longer timeouts than the defaults; change may change
// more.
func (b *bench) client(t testing.TB, change func(*driver.Options)) *driver.Client {
	t.Helper()
	o := &driver.Options{
		Addr: b.server.Addr(), DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	}
	if change != nil {
		change(o)
	}
	db := driver.NewClient(o)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (b *bench) raise(t testing.TB, c fence.Claim) {
	t.Helper()
	must.Succeed(t, b.admission(trusting{}).Raise(t.Context(), c))
}

// put runs one command under a claim.
func put(t testing.TB, db *driver.Client, c fence.Claim, value string) error {
	_, err := redismarks.Run(t.Context(), db, c, []any{"RPUSH", "written", value})
	return err
}

// until waits until happened returns true.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	if !poll.Until(patience, happened) {
		t.Fatalf("timed out before %s", what)
	}
}

func TestCommandsRunUnderATokenInTheirOrder(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(large))
	for _, protocol := range []int{2, 3} {
		db := b.client(t, func(o *driver.Options) { o.Protocol = protocol })
		b.do(t, "DEL", "a", "n", "l", "h")
		got, err := redismarks.Run(t.Context(), db, claim(large),
			[]any{"SET", "a", "1"}, []any{"GET", "a"}, []any{"GET", "none"},
			[]any{"INCRBY", []byte("n"), int64(-7)},
			[]any{"RPUSH", "l", "", "two words", "$5\r\nhello\r\n", 1.5, true, uint64(1<<63 + 1)},
			[]any{"LRANGE", "l", 0, -1},
			[]any{"LPUSH", "a", "x"}, []any{"MGET", "a", "none", "n"},
			[]any{"HSET", "h", "5", "4"}, []any{"HGETALL", "h"})
		must.Succeed(t, err)
		failed, _ := got[6].(error)
		if failed == nil || !driver.HasErrorPrefix(failed, "WRONGTYPE") {
			t.Errorf("the reply of a command that fails: %v", got[6])
		}
		want := []any{"OK", "1", nil, int64(-7), int64(6),
			[]any{"", "two words", "$5\r\nhello\r\n", "1.5", "1", "9223372036854775809"},
			got[6], []any{"1", nil, "-7"}, int64(1), []any{"5", "4"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("RESP%d: replies %#v, want %#v", protocol, got, want)
		}
	}
}

func TestBadCommandsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	dial := func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was opened")
		return nil, errors.New("closed")
	}
	db := driver.NewClient(&driver.Options{Dialer: dial})
	defer db.Close()
	for name, commands := range map[string][][]any{
		"none": {}, "an empty one": {{"PING"}, {}}, "too long": {make([]any, 7001)},
		"an unsupported type":               {{"SET", "a", struct{}{}}},
		"an argument that fails to marshal": {{"SET", "a", failingMarshaler{}}},
	} {
		_, err := redismarks.Run(t.Context(), db, claim(5), commands...)
		if err == nil || !strings.Contains(err.Error(), "nothing was run") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failingMarshaler struct{}

func (failingMarshaler) MarshalBinary() ([]byte, error) { return nil, errors.New("not now") }

func TestTheLongestCommandIsRun(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(5))
	longest := []any{"RPUSH", "l"}
	for len(longest) < 7000 {
		longest = append(longest, len(longest))
	}
	got, err := redismarks.Run(t.Context(), b.client(t, nil), claim(5), []any{"PING"}, longest,
		longest, []any{"PING"})
	if want := []any{"PONG", int64(6998), int64(2 * 6998), "PONG"}; err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAnApplicationNeedsNoMoreThanItsACL(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(5))
	rule := redismarks.RunACL("app", "secret") + " ~app:* +set +hset"
	as := func(rule string) *driver.Client {
		aclUser(t, b, rule)
		return b.client(t, func(o *driver.Options) { o.Username, o.Password = "app", "secret" })
	}
	got, err := redismarks.Run(t.Context(), as(rule), claim(5), []any{"SET", "app:a", 1},
		[]any{"SET", "b", 1}, []any{"HSET", "ringfence:orders", "token", "1"})
	if err != nil || got[0] != "OK" {
		t.Fatalf("%v, %v", got, err)
	}
	for _, i := range []int{1, 2} {
		if _, failed := got[i].(error); !failed {
			t.Errorf("command %d was run without the right: %v", i, got[i])
		}
	}
	for _, right := range []string{"info", "hmget", "object", "eval", "evalsha"} {
		b.do(t, "SCRIPT", "FLUSH")
		_, err := redismarks.Run(t.Context(), as(rule+" -"+right), claim(5), []any{"SET", "app:c", 1})
		if setup, ok := errors.AsType[*fence.SetupError](err); !ok || setup.Hint == "" {
			t.Errorf("without %s: %v", right, err)
		}
	}
	if n := b.do(t, "EXISTS", "app:c"); n != int64(0) {
		t.Error("a refused command was run")
	}
}

// Run waits for a server that is busy with a script, until the caller's context ends. Then nothing
// was run.
func TestRunWaitsForABusyServer(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{
		Args: []string{"--busy-reply-threshold", "10"},
	}))
	b.raise(t, claim(5))
	db := b.client(t, nil)
	must.Succeed(t, put(t, db, claim(5), "first"))
	held := make(chan error, 1)
	go func() {
		held <- b.admin.Eval(context.WithoutCancel(t.Context()), `while true do end`, nil).Err()
	}()
	probe := b.client(t, nil)
	until(t, "the script blocks the server", func() bool {
		return probe.Ping(t.Context()).Err() != nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := redismarks.Run(ctx, db, claim(5), []any{"RPUSH", "written", "too late"})
	if !errors.Is(err, redismarks.ErrNotRun) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller who gives up: %v", err)
	}
	patient := make(chan error, 1)
	go func() { patient <- put(t, db, claim(5), "second") }()
	must.Succeed(t, b.client(t, nil).ScriptKill(t.Context()).Err())
	<-held
	if err := <-patient; err != nil {
		t.Errorf("a patient caller: %v", err)
	}
	if got := fmt.Sprint(b.written(t)); got != "[first second]" {
		t.Error(got)
	}
}

// BenchmarkRun measures what the check adds to one command.
func BenchmarkRun(b *testing.B) {
	bench := open(b, serverstest.Redis(b, servers.RedisOptions{}))
	bench.raise(b, claim(large))
	db := bench.client(b, nil)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			must.Succeed(b, db.Incr(b.Context(), "n").Err())
		}
	})
	b.Run("fenced", func(b *testing.B) {
		for b.Loop() {
			_, err := redismarks.Run(b.Context(), db, claim(large), []any{"INCR", "n"})
			must.Succeed(b, err)
		}
	})
}
