package redismarks_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// program is a program in another language: it has a connection and nothing of ours.
type program struct {
	t      testing.TB
	db     *driver.Client
	script bool // it uses EVALSHA
}

// call calls a function once.
func (p program) call(name string, args ...any) (any, error) {
	command := []any{"FCALL", name, 0}
	if p.script {
		_, sha := redismarks.FunctionScript()
		command = []any{"EVALSHA", sha, 0, name}
	}
	return p.db.Do(p.t.Context(), append(command, args...)...).Result()
}

// take takes orders, or fails the test.
func (p program) take(holder string, attempt ...any) string {
	p.t.Helper()
	pass, err := p.call("ringfence_take", append([]any{"orders", holder}, attempt...)...)
	must.Succeed(p.t, err)
	return pass.(string)
}

// put runs one command under a pass.
func (p program) put(pass, value string) error {
	_, err := p.call("ringfence_exec", pass, "RPUSH", "written", value)
	return err
}

// refused fails the test unless an error has this word.
func (p program) refused(err error, word, why string) {
	p.t.Helper()
	if err == nil || !driver.HasErrorPrefix(err, word+" ") {
		p.t.Errorf("%s: got %v, want %s", why, err, word)
	}
}

// program makes one for a bench.
func (b *bench) program(t testing.TB, script bool) program {
	t.Helper()
	if missing, err := redismarks.LoadFunctions(t.Context(), b.server.URL()); err != nil ||
		missing != "" {
		t.Fatal(missing, err)
	}
	p := program{t, b.client(t, func(o *driver.Options) { o.MaxRetries = -1 }), script}
	p.loadScript()
	return p
}

func (p program) loadScript() {
	p.t.Helper()
	text, sha := redismarks.FunctionScript()
	if got, err := p.db.ScriptLoad(p.t.Context(), text).Result(); err != nil || got != sha {
		p.t.Fatal(got, err)
	}
}

// bothWays runs a test for FCALL and for EVALSHA.
func bothWays(t *testing.T, test func(t *testing.T, b *bench, p program)) {
	for name, script := range map[string]bool{"FCALL": false, "EVALSHA": true} {
		t.Run(name, func(t *testing.T) {
			b := open(t, redisWith(t))
			test(t, b, b.program(t, script))
		})
	}
}

func TestCommandsRunUnderAPass(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 1)
		if !strings.HasPrefix(pass, "orders 1 take 1:") {
			t.Errorf("the pass is %q", pass)
		}
		got, err := p.call("ringfence_exec", pass, "INCRBY", "balance", -5)
		if err != nil || got != int64(-5) {
			t.Errorf("one command: %v, %v", got, err)
		}
		got, err = p.call("ringfence_exec", pass, 3, "INCRBY", "balance", -2, 3, "LPUSH", "balance", "x",
			2, "GET", "balance", 2, "GET", "none")
		list, _ := got.([]any)
		if err != nil || len(list) != 4 || list[0] != int64(-7) || list[2] != "-7" || list[3] != nil {
			t.Fatalf("several commands: %v, %v", got, err)
		}
		if failed, _ := list[1].(error); failed == nil || !driver.HasErrorPrefix(failed, "WRONGTYPE") {
			t.Errorf("the reply of a command that fails: %v", list[1])
		}
		if _, err := p.call("ringfence_exec", pass, "LPUSH", "balance", "x"); err == nil ||
			!driver.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("one command that fails: %v", err)
		}
		if v, err := p.call("ringfence_version"); err != nil || v != "1" {
			t.Errorf("version: %v, %v", v, err)
		}
	})
}

func TestArgumentsThatMakeNoSenseRunNothing(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 1)
		long := strings.Repeat("x", 49)
		for _, args := range [][]any{
			{"take", "", "w", 1}, {"take", "Orders", "w", 1}, {"take", long, "w", 1},
			{"take", "orders", "", 1},
			{"take", "orders"}, {"take"}, {"take", "orders", "a\nb", 1},
			{"take", "orders", strings.Repeat("x", 1025), 1},
			{"take", "orders", "w", "-1"}, {"take", "orders", "w", "1.5"},
			{"take", "orders", "w", "9223372036854775808"},
			{"take", "orders", "w", 1, 2},
			{"bring", "orders", 0, "lock", "w"}, {"bring", "orders", "x", "lock", "w"},
			{"bring", "orders", 1, "", "w"},
			{"bring", "orders", 1, "a b", "w"}, {"bring", "orders", 1, "lock"},
			{"bring", "orders", 1, "lock", "w", 1},
			{"exec"}, {"exec", pass}, {"exec", "orders 1", "SET", "a", 1},
			{"exec", "orders 01 take 1:0", "SET", "a", 1},
			{"exec", pass + " x", "SET", "a", 1},
			{"exec", pass, 3, "SET", "a"}, {"exec", pass, 3, "SET", "a", 1, "GET", "a"}, {"exec", pass, "0"},
			{"exec", pass, "3x", "SET", "a", 1}, {"exec", pass, 3, "SET", "a", 1, 0},
		} {
			_, err := p.call("ringfence_"+args[0].(string), args[1:]...)
			p.refused(err, "BADTOKEN", fmt.Sprint(args))
		}
		if n := b.do(t, "EXISTS", "a"); n != int64(0) {
			t.Error("something was run")
		}
		if again := p.take("worker-1", 1); again != pass {
			t.Errorf("the mark was changed: %q", again)
		}
	})
}

func TestFunctionsInPipelinesTransactionsAndDatabases(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, b *bench, p program) {
		old := p.take("worker-1", 1)
		pass := p.take("worker-2", 2)
		exec := func(pass string, args ...any) []any {
			head := []any{"FCALL", "ringfence_exec", 0, pass}
			if p.script {
				_, sha := redismarks.FunctionScript()
				head = []any{"EVALSHA", sha, 0, "ringfence_exec", pass}
			}
			return append(head, args...)
		}
		for name, pipe := range map[string]driver.Pipeliner{
			"pipeline": p.db.Pipeline(), "MULTI": p.db.TxPipeline(),
		} {
			b.do(t, "DEL", "written")
			good, bad := pipe.Do(t.Context(), exec(pass, "RPUSH", "written", "x")...),
				pipe.Do(t.Context(), exec(old, "RPUSH", "written", "y")...)
			_, _ = pipe.Exec(t.Context())
			p.refused(bad.Err(), "STALETOKEN", name)
			if good.Err() != nil || fmt.Sprint(b.written(t)) != "[x]" {
				t.Errorf("%s: %v, %v", name, good.Err(), b.written(t))
			}
		}

		three := program{t, b.client(t, func(o *driver.Options) { o.DB, o.PoolSize = 3, 1 }), p.script}
		_, err := three.call("ringfence_exec", pass, "SET", "a", "1")
		three.refused(err, "NOTINSTALLED", "a connection in database 3")
		if _, err := three.call("ringfence_exec", pass, 2, "SELECT", 3, 3, "SET", "a",
			"in three"); err != nil {
			t.Error(err)
		}
		_, err = three.call("ringfence_exec", old, 2, "SELECT", 3, 3, "SET", "a", "late")
		three.refused(err, "STALETOKEN", "a deposed holder in database 3")
		if v := three.db.Get(t.Context(), "a").Val(); v != "in three" {
			t.Errorf("database 3 has %q", v)
		}
		if again, err := three.call("ringfence_take", "orders", "worker-2", 2); err != nil ||
			again != pass {
			t.Errorf("a take from database 3: %v, %v", again, err)
		}
		if v := three.db.Get(t.Context(), "a").Val(); v != "in three" {
			t.Errorf("a call has changed the connection's database: %q", v)
		}
	})
}

// The texts are those of the refusals in Go, and a Go program reads them as such.
func TestFunctionsRefuseInTheWordsOfGuards(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	p.take("worker-1", 1)
	pass := p.take("worker-2", 2)
	c := fence.Claim{Resource: "orders", Token: 1, Issuer: "take"}
	now := time.Now()
	for _, row := range []struct {
		pass string
		want *fence.Refusal
	}{
		{"orders 1 take -", refusal.Stale(c, 2, "worker-2", now)},
		{"orders 1 other -", refusal.OtherIssuer(c, 2, "take")},
		{"stock 1 take -", refusal.Unraised(fence.Claim{Resource: "stock", Token: 1}, 0, "")},
	} {
		err := p.put(row.pass, "x")
		if err == nil ||
			!strings.HasPrefix(err.Error(), refusal.Word(row.want.Reason)+" "+row.want.Message+" — ") {
			t.Errorf("%q: %v, want %v", row.pass, err, refusal.Line(row.want))
		}
		if r := redismarks.RefusalIn(err, c); r == nil || r.Reason != row.want.Reason {
			t.Errorf("%q: it is read as %+v", row.pass, r)
		}
	}
	b.do(t, "FLUSHALL")
	want := refusal.NotInstalled("", nil)
	if err := p.put(pass, "x"); err == nil ||
		!strings.HasPrefix(err.Error(), refusal.Word(want.Reason)+" "+want.Message+" — ") {
		t.Error(err)
	}
}

// A holder in Go runs commands in a Tx under what was taken elsewhere.
func TestATxRunsUnderATakenToken(t *testing.T) {
	t.Parallel()
	b := open(t, redisWith(t))
	p := b.program(t, false)
	words := strings.Fields(p.take("worker-1", 1))
	c := fence.Claim{Resource: "orders", Token: 1, Issuer: "take", Candidate: words[3]}
	must.Report(t, put(t, p.db, c, "x"))
	// Redis may give the number out again, so it is not enough.
	if err := put(t, p.db, fence.Claim{
		Resource: "orders", Token: 1, Issuer: "take",
	}, "x"); !errors.Is(err, fence.ErrNotRaised) {
		t.Errorf("the number alone: %v", err)
	}
	p.refused(p.put("orders 1 take -", "x"), "NOTRAISED", "the number alone")
	p.take("worker-2", 2)
	if err := put(t, p.db, c, "x"); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if m, err := b.store.Marks(t.Context(), "orders"); err != nil || len(m) != 1 || !m[0].Confirmed ||
		m[0].Holder != "worker-2" {
		t.Errorf("what guard status shows: %+v, %v", m, err)
	}
}

func TestFunctionsNeedNoMoreThanTheirACL(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]bool{"FCALL": false, "EVALSHA": true} {
		t.Run(name, func(t *testing.T) {
			b := open(t, redisWith(t))
			p := b.program(t, script)
			as := func(user, rule string) program {
				aclUser(t, b, rule)
				return program{t, b.client(t, func(o *driver.Options) {
					o.Username, o.Password = user, "secret"
				}), script}
			}
			b.restart(t) // so that a take has to write all that it ever writes
			p.loadScript()
			b.do(t, "SELECT", 0)
			b.copyTo(t, 1, "ringfence")
			taker := as("taker", redismarks.TakeACL("taker", "secret", "orders"))
			app := as("app", redismarks.RunACL("app", "secret")+" ~app:* +rpush +hset +del +fcall")
			pass := taker.take("worker-1", 1)
			if got, err := app.call("ringfence_exec", pass, "RPUSH", "app:list", "x"); err != nil ||
				got != int64(1) {
				t.Errorf("an application: %v, %v", got, err)
			}
			for _, command := range [][]any{
				{"HSET", "ringfence:orders", "token", 1}, {"DEL", "ringfence"}, {"RPUSH", "other", "x"},
			} {
				if _, err := app.call("ringfence_exec", append([]any{pass}, command...)...); err == nil {
					t.Errorf("%v was run without the right", command)
				}
				if err := app.db.Do(t.Context(), command...).Err(); err == nil {
					t.Errorf("%v was run directly", command)
				}
			}
			if _, err := app.call("ringfence_take", "orders", "worker-2", 2); err == nil {
				t.Error("an application that may only run commands has taken a token")
			}
			if _, err := taker.call("ringfence_take", "stock", "worker-2", 2); err == nil {
				t.Error("a taker has taken what is not in its rule")
			}
			for range 2 { // what was refused has changed nothing
				if again := taker.take("worker-1", 1); again != pass {
					t.Errorf("%q, then %q", pass, again)
				}
			}
			if next := taker.take("worker-2", 2); next == pass {
				t.Error(next)
			}
			if n, _ := b.do(t, "EXISTS", "ringfence:stock").(int64); n != 0 {
				t.Error("a refused take has left a mark")
			}
		})
	}
}

func TestInstallLoadsTheFunctionsIfItMay(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	load := func(rule string) string {
		t.Helper()
		aclUser(t, b, rule)
		missing, err := redismarks.LoadFunctions(t.Context(), as(b.server, "keeper", "secret"))
		must.Succeed(t, err)
		return missing
	}
	if missing := load(redismarks.ACL("keeper", "secret")); !strings.Contains(missing,
		"+function|load") {
		t.Errorf("without the right: %q", missing)
	}
	for range 2 { // it may be repeated
		if missing := load(redismarks.ACL("keeper", "secret") + " +function|load"); missing != "" {
			t.Error(missing)
		}
	}
	text, err := redismarks.InstallText(as(b.server, "keeper", "secret"))
	if err != nil || !strings.Contains(text, "+function|load") ||
		!strings.Contains(text, redismarks.TakeACL("TAKER", "PASSWORD", "RESOURCE")) {
		t.Errorf("what install --print shows: %s, %v", text, err)
	}
	list, err := b.admin.Do(t.Context(), "FUNCTION", "LIST", "LIBRARYNAME", "ringfence").Slice()
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// docs/ringfence.lua is the script for EVALSHA. UPDATE_DOCS=1 writes it anew.
func TestThePublishedScriptIsThisOne(t *testing.T) {
	t.Parallel()
	const file = "../../../docs/ringfence.lua"
	text, sha := redismarks.FunctionScript()
	if os.Getenv("UPDATE_DOCS") != "" {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o644))
	}
	if published, err := os.ReadFile(file); err != nil || string(published) != text {
		t.Errorf("%s is of another version (%v): run this test with UPDATE_DOCS=1", file, err)
	}
	if page, err := os.ReadFile("../../../docs/redis.md"); err != nil ||
		!strings.Contains(string(page), sha) {
		t.Errorf("docs/redis.md does not name its hash, %s (%v)", sha, err)
	}
}

// BenchmarkFunction measures what the check adds to one command.
func BenchmarkFunction(b *testing.B) {
	bench := open(b, serverstest.Redis(b, servers.RedisOptions{}))
	p := bench.program(b, false)
	pass := p.take("worker-1", 1)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			must.Succeed(b, p.db.Incr(b.Context(), "n").Err())
		}
	})
	b.Run("fenced", func(b *testing.B) {
		for b.Loop() {
			_, err := p.call("ringfence_exec", pass, "INCR", "n")
			must.Succeed(b, err)
		}
	})
}
