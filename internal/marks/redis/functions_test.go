package redis_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/refusal"
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
		_, sha := redis.FunctionScript()
		command = []any{"EVALSHA", sha, 0, name}
	}
	return p.db.Do(p.t.Context(), append(command, args...)...).Result()
}

// take takes orders, or fails the test.
func (p program) take(holder string, attempt ...any) string {
	p.t.Helper()
	pass, err := p.call("ringfence_take", append([]any{"orders", holder}, attempt...)...)
	if err != nil {
		p.t.Fatal(err)
	}
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
	if missing, err := redis.LoadFunctions(t.Context(), b.server.URL()); err != nil || missing != "" {
		t.Fatal(missing, err)
	}
	p := program{t, b.client(t, func(o *driver.Options) { o.MaxRetries = -1 }), script}
	p.loadScript()
	return p
}

func (p program) loadScript() {
	p.t.Helper()
	text, sha := redis.FunctionScript()
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
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 1)
		long := strings.Repeat("x", 49)
		for _, args := range [][]any{
			{"take", "", "w", 1}, {"take", "Orders", "w", 1}, {"take", long, "w", 1}, {"take", "orders", "", 1},
			{"take", "orders"}, {"take"}, {"take", "orders", "a\nb", 1}, {"take", "orders", strings.Repeat("x", 1025), 1},
			{"take", "orders", "w", "-1"}, {"take", "orders", "w", "1.5"}, {"take", "orders", "w", "9223372036854775808"},
			{"take", "orders", "w", 1, 2},
			{"bring", "orders", 0, "lock", "w"}, {"bring", "orders", "x", "lock", "w"}, {"bring", "orders", 1, "", "w"},
			{"bring", "orders", 1, "a b", "w"}, {"bring", "orders", 1, "lock"}, {"bring", "orders", 1, "lock", "w", 1},
			{"exec"}, {"exec", pass}, {"exec", "orders 1", "SET", "a", 1}, {"exec", "orders 01 take 1:0", "SET", "a", 1},
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

// The answer to a take may get lost. The caller repeats it, and deposes nobody, least of all itself.
func TestATakeThatIsRepeatedGivesTheSamePass(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 7)
		if again := p.take("worker-1", "007"); again != pass {
			t.Errorf("again: %q, then %q", pass, again)
		}
		if err := p.put(pass, "x"); err != nil {
			t.Error(err)
		}
		next := p.take("worker-1", 8)
		if next == pass || !strings.HasPrefix(next, "orders 2 take 8:") {
			t.Errorf("the next attempt of the same holder: %q", next)
		}
		p.refused(p.put(pass, "late"), "STALETOKEN", "the attempt before")
	})
}

func TestAZombieThatStartsLateDeposesNobody(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		p.take("worker-1", 9)
		pass := p.take("worker-2", 10)
		for _, zombie := range [][]any{
			{"orders", "worker-1", 9},  // an attempt below
			{"orders", "worker-2", 9},  // of the same holder
			{"orders", "worker-1", 10}, // another holder has this attempt
		} {
			_, err := p.call("ringfence_take", zombie...)
			p.refused(err, "STALETOKEN", fmt.Sprint(zombie))
			if !strings.Contains(err.Error(), `"worker-2" has attempt 10`) {
				t.Error(err)
			}
		}
		if err := p.put(pass, "x"); err != nil {
			t.Errorf("the present attempt: %v", err)
		}
		// Without an attempt a take is a decree. It does not make attempts forgotten.
		decree := p.take("operator")
		if again := p.take("operator"); again != decree {
			t.Errorf("a decree that is repeated: %q, then %q", decree, again)
		}
		p.refused(p.put(pass, "late"), "STALETOKEN", "after a decree")
		for _, late := range []any{9, 10} {
			_, err := p.call("ringfence_take", "orders", "worker-2", late)
			p.refused(err, "STALETOKEN", fmt.Sprint("attempt ", late, " after a decree"))
		}
		p.take("worker-3", 11)
	})
}

// The older holder writes as fast as it can. After a take none of its writes succeeds.
func TestNoCommandOfADeposedHolderRuns(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		old := p.take("worker-1", 1)
		stopped := make(chan error, 1)
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			var err error
			for start := time.Now(); err == nil && time.Since(start) < time.Minute; {
				err = p.put(old, "old")
			}
			stopped <- err
		})
		until(t, "the older holder writes", func() bool {
			return b.admin.LLen(t.Context(), "written").Val() >= 50
		})
		if err := p.put(p.take("worker-2", 2), "new"); err != nil {
			t.Fatal(err)
		}
		p.refused(<-stopped, "STALETOKEN", "the older holder")
		if list := b.written(t); list[len(list)-1] != "new" {
			t.Fatal("a deposed holder wrote after the next one")
		}
	})
}

func TestTokensAreCountedExactly(t *testing.T) {
	b := open(t, redisWith(t))
	p := b.program(t, false)
	p.take("worker-0")
	for i, at := range []string{"9", "99", "1099", "9007199254740992", "1152921504606846975", "1152921504606846999"} {
		b.do(t, "HSET", "ringfence:orders", "token", at)
		old := fmt.Sprintf("orders %s take %v", at, b.do(t, "HGET", "ringfence:orders", "candidate"))
		pass := p.take(fmt.Sprint("worker-", i+1))
		before, _ := fence.ParseToken(at)
		if want := fmt.Sprintf("orders %d take ", before+1); !strings.HasPrefix(pass, want) {
			t.Errorf("after %s: %q", at, pass)
		}
		p.refused(p.put(old, "x"), "STALETOKEN", at)
		if err := p.put(pass, "x"); err != nil {
			t.Error(err)
		}
	}
}

// After a restart the mark may have been higher. The holder takes it anew, with the same attempt.
func TestAHolderTakesItAgainAfterARestart(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 3)
		b.restart(t)
		p.loadScript()
		p.refused(p.put(pass, "unconfirmed"), "NOTLEADER", "before it is taken again")
		fresh := p.take("worker-1", 3)
		p.refused(p.put(pass, "late"), "STALETOKEN", "the pass of before")
		if err := p.put(fresh, "x"); err != nil || fmt.Sprint(b.written(t)) != "[x]" {
			t.Error(err, b.written(t))
		}
		if again := p.take("worker-1", 3); again != fresh {
			t.Errorf("again: %q, then %q", fresh, again)
		}
	})
}

// Redis has lost the last take in a crash, and gives its number to somebody else.
func TestANumberThatIsGivenOutAgainIsAnotherToken(t *testing.T) {
	b := open(t, redisWith(t))
	p := b.program(t, false)
	p.take("worker-1", 1)
	before := b.admin.HGetAll(t.Context(), "ringfence:orders").Val()
	lost := p.take("worker-2", 2)
	for field, value := range before {
		b.do(t, "HSET", "ringfence:orders", field, value)
	}
	b.restart(t)
	p.refused(p.put(lost, "x"), "NOTLEADER", "before anybody has taken it again")
	fresh := p.take("worker-3", 3)
	if !strings.HasPrefix(fresh, "orders 2 ") || !strings.HasPrefix(lost, "orders 2 ") {
		t.Fatalf("this shows nothing: %q, %q", lost, fresh)
	}
	p.refused(p.put(lost, "x"), "NOTLEADER", "the number's other holder")
	if n := len(b.written(t)); n != 0 {
		t.Errorf("%d stale writes", n)
	}
}

func TestAFlushedRedisTakesNothingBefore(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 1)
		b.do(t, "FLUSHALL")
		p.refused(p.put(pass, "x"), "NOTINSTALLED", "a pass")
		_, err := p.call("ringfence_take", "orders", "worker-1", 1)
		p.refused(err, "NOTINSTALLED", "a take")
		if err := redis.Install(t.Context(), b.server.URL()); err != nil {
			t.Fatal(err)
		}
		p.refused(p.put(pass, "x"), "NOTLEADER", "a pass after another installation")
		fresh := p.take("worker-2", 1)
		if !strings.HasPrefix(fresh, "orders 1 ") {
			t.Fatalf("this shows nothing: %q", fresh)
		}
		p.refused(p.put(pass, "x"), "NOTLEADER", "a pass with the number of another one")
		if err := p.put(fresh, "y"); err != nil || fmt.Sprint(b.written(t)) != "[y]" {
			t.Error(err, b.written(t))
		}
	})
}

// Earlier data are loaded into the running server, on which only functions have raised marks.
func TestEarlierDataBringNoHolderBack(t *testing.T) {
	for name, load := range map[string]func(t *testing.T, b *bench){
		"dumps are restored": func(t *testing.T, b *bench) {
			for _, key := range []string{"ringfence", "ringfence:.original", "ringfence:orders"} {
				b.do(t, "RESTORE", key, 0, b.do(t, "GET", "dump:"+key), "REPLACE")
			}
		},
		"a copy comes by SWAPDB": func(t *testing.T, b *bench) { b.do(t, "SWAPDB", 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, redisWith(t))
			p := b.program(t, false)
			b.restart(t)
			old := p.take("worker-1", 1)
			if err := p.put(old, "x"); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"ringfence", "ringfence:.original", "ringfence:orders"} {
				b.do(t, "SET", "dump:"+key, b.do(t, "DUMP", key))
			}
			b.copyTo(t, 1, "ringfence", "ringfence:.original", "ringfence:orders")
			fresh := p.take("worker-2", 2)
			load(t, b)
			for _, pass := range []string{old, fresh} {
				if err := p.put(pass, "late"); err == nil {
					t.Errorf("%q counts on earlier data", pass)
				}
			}
		})
	}
}

func TestALostMarkIsTakenAnew(t *testing.T) {
	b := open(t, redisWith(t))
	p := b.program(t, false)
	pass := p.take("worker-1", 1)
	b.do(t, "DEL", "ringfence:orders")
	p.refused(p.put(pass, "x"), "NOTLEADER", "its pass")
	fresh := p.take("worker-1", 1)
	if !strings.HasPrefix(fresh, "orders 1 ") || fresh == pass {
		t.Fatalf("%q, then %q", pass, fresh)
	}
	p.refused(p.put(pass, "x"), "NOTLEADER", "a pass with the same number")
	if err := p.put(fresh, "x"); err != nil {
		t.Error(err)
	}
}

// A replica has library and mark. Promoted, it takes nothing of before.
func TestAfterAFailoverItIsTakenAgain(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		pass := p.take("worker-1", 1)
		replica := redisWith(t)
		other := &bench{server: replica}
		host, port, _ := strings.Cut(b.server.Addr(), ":")
		there := program{t, other.client(t, func(o *driver.Options) { o.MaxRetries = -1 }), p.script}
		do := func(args ...any) {
			t.Helper()
			if err := there.db.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		do("REPLICAOF", host, port)
		until(t, "the replica has the mark", func() bool {
			return there.db.HGet(t.Context(), "ringfence:orders", "token").Val() == "1"
		})
		// The primary has a first replica now, and so another replication id.
		until(t, "the mark is taken again", func() bool { pass = p.take("worker-1", 1); return p.put(pass, "x") == nil })
		b.do(t, "WAIT", 1, 30000)
		if p.script {
			there.loadScript()
		}
		if err := there.put(pass, "on the replica"); err == nil {
			t.Error("a replica has written")
		}
		if _, err := there.call("ringfence_take", "orders", "worker-2", 2); err == nil ||
			!strings.Contains(err.Error(), "READONLY") && !driver.HasErrorPrefix(err, "READONLY") {
			t.Errorf("a take at a replica: %v", err)
		}
		do("REPLICAOF", "NO", "ONE")
		there.refused(there.put(pass, "x"), "NOTLEADER", "on the promoted replica")
		fresh := there.take("worker-2", 2)
		there.refused(there.put(pass, "x"), "STALETOKEN", "the holder of before")
		if err := there.put(fresh, "y"); err != nil {
			t.Error(err)
		}
		if list := there.db.LRange(t.Context(), "written", 0, -1).Val(); fmt.Sprint(list) != "[x y]" {
			t.Error(list)
		}
	})
}

// Scripts cannot end a connection. So what guards have led is never taken, nor the other way round.
func TestGuardsAndFunctionsKeepApart(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		session := b.admit(t, trusting{}, 5)
		take := func(why string) {
			t.Helper()
			_, err := p.call("ringfence_take", "orders", "worker-1", 1)
			p.refused(err, "ISSUER", why)
		}
		take("a session of a guard lives")
		if err := session.Write(t.Context(), "x"); err != nil {
			t.Errorf("the session: %v", err)
		}
		session.Close()
		take("no session lives")
		b.restart(t)
		p.loadScript()
		take("after a restart")
		b.do(t, "DEL", "ringfence:orders")
		take("Redis has lost the mark")

		if _, err := p.call("ringfence_take", "stock", "worker-1", 1); err != nil {
			t.Fatal(err)
		}
		stock := fence.Claim{Resource: "stock", Token: 9, Issuer: fence.Unverified}
		for _, name := range []fence.Issuer{"", "take"} {
			guard := b.admission(marks.Unverified{Name: name})
			s := b.session(t)
			if err := guard.Admit(t.Context(), s.s, marks.Present(stock)); !errors.Is(err, fence.ErrOtherIssuer) {
				t.Errorf("a guard whose issuer is %q: %v", name, err)
			}
			s.Close()
			stock.Issuer = "take"
			// A program that was given a taken token may not confirm it after a restart either.
			if err := guard.Raise(t.Context(), stock); !errors.Is(err, fence.ErrOtherIssuer) {
				t.Errorf("a raise of issuer %q: %v", name, err)
			}
		}
	})
}

// An adoption was interrupted before it had ended the sessions of a guard's resource. What a restart or a
// failover does to the registry does not make them forgotten.
func TestATakeForgetsNoSessionOfAGuard(t *testing.T) {
	b := open(t, redisWith(t))
	p := b.program(t, false)
	p.take("worker-1", 1)
	b.do(t, "HSET", "ringfence:orders", "session:77", 5)
	for range 2 {
		_, err := p.call("ringfence_take", "orders", "worker-2", 2)
		p.refused(err, "REVOKE", "a session is recorded")
		b.restart(t)
	}
	if _, err := b.store.Adopt(t.Context(), fence.Claim{Resource: "orders", Issuer: "take"}, "operator"); err != nil {
		t.Fatal(err)
	}
	p.take("worker-2", 2)
}

// A pass can also name a token that a guard has raised. Then it waits for the sessions before it.
func TestNothingRunsWhileOlderSessionsMayLive(t *testing.T) {
	b := open(t, redisWith(t))
	p := b.program(t, false)
	old := b.admit(t, trusting{}, 5)
	if _, err := b.store.Raise(t.Context(), marks.Session{}, claim(6), agreed(claim(6))); err != nil {
		t.Fatal(err)
	}
	pass := fmt.Sprintf("orders 6 %s -", fence.Unverified)
	p.refused(p.put(pass, "x"), "REVOKE", "a session under an older token is recorded")
	if _, err := b.store.Revoke(t.Context(), marks.Session{}, claim(6)); err != nil {
		t.Fatal(err)
	}
	if err := p.put(pass, "x"); err != nil {
		t.Error(err)
	}
	old.Close()
}

func TestANumberIsBroughtWhereTheOperatorAllowsIt(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		bring := func(token any, issuer string) (string, error) {
			pass, err := p.call("ringfence_bring", "orders", token, issuer, "worker-1")
			text, _ := pass.(string)
			return text, err
		}
		_, err := bring(45, "lock")
		p.refused(err, "NOTAUTHORIZED", "nobody has allowed it")
		b.allow(t, "ringfence_bring", "ord*")
		pass, err := bring(45, "lock")
		if err != nil || pass != "orders 45 bring:lock -" {
			t.Fatalf("%q, %v", pass, err)
		}
		if again, err := bring(45, "lock"); err != nil || again != pass {
			t.Errorf("again: %q, %v", again, err)
		}
		if err := p.put(pass, "a"); err != nil {
			t.Error(err)
		}
		_, err = bring(44, "lock")
		p.refused(err, "STALETOKEN", "a lower number")
		_, err = bring(46, "another")
		p.refused(err, "ISSUER", "a number of another issuer")
		_, err = p.call("ringfence_take", "orders", "worker-1", 1)
		p.refused(err, "ISSUER", "a take of what is brought")
		higher, err := bring(int64(1<<60), "lock")
		if err != nil {
			t.Fatal(err)
		}
		p.refused(p.put(pass, "late"), "STALETOKEN", "the number before")

		b.restart(t)
		p.loadScript()
		p.refused(p.put(higher, "unconfirmed"), "NOTLEADER", "after a restart")
		_, err = bring(int64(1<<60-1), "lock")
		p.refused(err, "STALETOKEN", "a lower number after a restart")
		if again, err := bring(int64(1<<60), "lock"); err != nil || again != higher || p.put(higher, "b") != nil {
			t.Errorf("after a restart: %q, %v", again, err)
		}
		b.do(t, "DEL", "ringfence:orders")
		_, err = bring(int64(1<<60+1), "lock")
		p.refused(err, "NOTLEADER", "the mark is lost")
		adopted := fence.Claim{Resource: "orders", Issuer: "bring:lock"}
		if _, err := b.store.Adopt(t.Context(), adopted, "operator"); err != nil {
			t.Fatal(err)
		}
		p.refused(p.put("orders 0 bring:lock -", "c"), "NOTLEADER", "the number that everybody knows")
		p.refused(p.put("stock 0 take -", "c"), "NOTLEADER", "the number that everybody knows, without a mark")
		if _, err := bring(int64(1<<60), "lock"); err != nil {
			t.Errorf("after an adoption: %v", err)
		}
		if got := fmt.Sprint(b.written(t)); got != "[a b]" {
			t.Error(got)
		}
	})
}

// A script cannot learn who calls it. So the list has names for the functions.
func TestAuthorizationNamesTheFunctions(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		before := p.take("worker-1", 1)
		if err := b.store.Authorize(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		_, err := p.call("ringfence_take", "orders", "worker-2", 2)
		p.refused(err, "NOTAUTHORIZED", "a take")
		if err := p.put(before, "x"); err != nil {
			t.Errorf("what was taken before: %v", err)
		}
		b.allow(t, "ringfence_take", "orders")
		p.take("worker-2", 2)
		_, err = p.call("ringfence_take", "stock", "worker-2", 2)
		p.refused(err, "NOTAUTHORIZED", "a take of another resource")
	})
}

func TestFunctionsInPipelinesTransactionsAndDatabases(t *testing.T) {
	bothWays(t, func(t *testing.T, b *bench, p program) {
		old := p.take("worker-1", 1)
		pass := p.take("worker-2", 2)
		exec := func(pass string, args ...any) []any {
			head := []any{"FCALL", "ringfence_exec", 0, pass}
			if p.script {
				_, sha := redis.FunctionScript()
				head = []any{"EVALSHA", sha, 0, "ringfence_exec", pass}
			}
			return append(head, args...)
		}
		for name, pipe := range map[string]driver.Pipeliner{"pipeline": p.db.Pipeline(), "MULTI": p.db.TxPipeline()} {
			b.do(t, "DEL", "written")
			good, bad := pipe.Do(t.Context(), exec(pass, "RPUSH", "written", "x")...), pipe.Do(t.Context(), exec(old, "RPUSH", "written", "y")...)
			_, _ = pipe.Exec(t.Context())
			p.refused(bad.Err(), "STALETOKEN", name)
			if good.Err() != nil || fmt.Sprint(b.written(t)) != "[x]" {
				t.Errorf("%s: %v, %v", name, good.Err(), b.written(t))
			}
		}

		three := program{t, b.client(t, func(o *driver.Options) { o.DB, o.PoolSize = 3, 1 }), p.script}
		_, err := three.call("ringfence_exec", pass, "SET", "a", "1")
		three.refused(err, "NOTINSTALLED", "a connection in database 3")
		if _, err := three.call("ringfence_exec", pass, 2, "SELECT", 3, 3, "SET", "a", "in three"); err != nil {
			t.Error(err)
		}
		_, err = three.call("ringfence_exec", old, 2, "SELECT", 3, 3, "SET", "a", "late")
		three.refused(err, "STALETOKEN", "a deposed holder in database 3")
		if v := three.db.Get(t.Context(), "a").Val(); v != "in three" {
			t.Errorf("database 3 has %q", v)
		}
		if again, err := three.call("ringfence_take", "orders", "worker-2", 2); err != nil || again != pass {
			t.Errorf("a take from database 3: %v, %v", again, err)
		}
		if v := three.db.Get(t.Context(), "a").Val(); v != "in three" {
			t.Errorf("a call has changed the connection's database: %q", v)
		}
	})
}

// A new holder gets in when Redis is out of memory; a command that needs memory does not run.
func TestATakeNeedsNoMemoryThatRedisLacks(t *testing.T) {
	b := open(t, redisWith(t))
	p := b.program(t, false)
	pass := p.take("worker-1", 1)
	b.do(t, "CONFIG", "SET", "maxmemory", 1)
	p.refused(p.put(pass, "x"), "OOM", "a command")
	p.take("worker-2", 2)
	b.do(t, "CONFIG", "SET", "maxmemory", 0)
	p.refused(p.put(pass, "x"), "STALETOKEN", "a deposed holder")
}

func TestAClusterRunsNoFunction(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	p := program{t: t, db: (&bench{server: server}).client(t, nil)}
	slots := p.db.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	loaded := p.db.Do(t.Context(), "FUNCTION", "LOAD", redis.Library())
	if err := errors.Join(slots.Err(), loaded.Err()); err != nil {
		t.Fatal(err)
	}
	until(t, "the cluster is up", func() bool {
		return strings.Contains(p.db.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	if _, err := p.call("ringfence_take", "orders", "worker-1", 1); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Error(err)
	}
}

// The texts are those of the refusals in Go, and a Go program reads them as such.
func TestFunctionsRefuseInTheWordsOfGuards(t *testing.T) {
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
		if err == nil || !strings.HasPrefix(err.Error(), refusal.Word(row.want.Reason)+" "+row.want.Message+" — ") {
			t.Errorf("%q: %v, want %v", row.pass, err, refusal.Line(row.want))
		}
		if r := redis.RefusalIn(err, c); r == nil || r.Reason != row.want.Reason {
			t.Errorf("%q: it is read as %+v", row.pass, r)
		}
	}
	b.do(t, "FLUSHALL")
	want := refusal.NotInstalled("", nil)
	if err := p.put(pass, "x"); err == nil || !strings.HasPrefix(err.Error(), refusal.Word(want.Reason)+" "+want.Message+" — ") {
		t.Error(err)
	}
}

// A holder in Go runs commands in a Tx under what was taken elsewhere.
func TestATxRunsUnderATakenToken(t *testing.T) {
	b := open(t, redisWith(t))
	p := b.program(t, false)
	words := strings.Fields(p.take("worker-1", 1))
	c := fence.Claim{Resource: "orders", Token: 1, Issuer: "take", Candidate: words[3]}
	if err := put(t, p.db, c, "x"); err != nil {
		t.Error(err)
	}
	p.take("worker-2", 2)
	if err := put(t, p.db, c, "x"); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if m, err := b.store.Marks(t.Context(), "orders"); err != nil || len(m) != 1 || !m[0].Confirmed || m[0].Holder != "worker-2" {
		t.Errorf("what guard status shows: %+v, %v", m, err)
	}
}

func TestFunctionsNeedNoMoreThanTheirACL(t *testing.T) {
	for name, script := range map[string]bool{"FCALL": false, "EVALSHA": true} {
		t.Run(name, func(t *testing.T) {
			b := open(t, redisWith(t))
			p := b.program(t, script)
			as := func(user, rule string) program {
				aclUser(t, b, rule)
				return program{t, b.client(t, func(o *driver.Options) { o.Username, o.Password = user, "secret" }), script}
			}
			b.restart(t) // so that a take has to write all that it ever writes
			p.loadScript()
			b.do(t, "SELECT", 0)
			b.copyTo(t, 1, "ringfence")
			taker := as("taker", redis.TakeACL("taker", "secret", "orders"))
			app := as("app", redis.RunACL("app", "secret")+" ~app:* +rpush +hset +del +fcall")
			pass := taker.take("worker-1", 1)
			if got, err := app.call("ringfence_exec", pass, "RPUSH", "app:list", "x"); err != nil || got != int64(1) {
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
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	load := func(rule string) string {
		t.Helper()
		aclUser(t, b, rule)
		missing, err := redis.LoadFunctions(t.Context(), as(b.server, "keeper", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		return missing
	}
	if missing := load(redis.ACL("keeper", "secret")); !strings.Contains(missing, "+function|load") {
		t.Errorf("without the right: %q", missing)
	}
	for range 2 { // it may be repeated
		if missing := load(redis.ACL("keeper", "secret") + " +function|load"); missing != "" {
			t.Error(missing)
		}
	}
	text, err := redis.InstallText(as(b.server, "keeper", "secret"))
	if err != nil || !strings.Contains(text, "+function|load") || !strings.Contains(text, redis.TakeACL("TAKER", "PASSWORD", "RESOURCE")) {
		t.Errorf("what install --print shows: %s, %v", text, err)
	}
	list, err := b.admin.Do(t.Context(), "FUNCTION", "LIST", "LIBRARYNAME", "ringfence").Slice()
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// docs/ringfence.lua is the script for EVALSHA. UPDATE_DOCS=1 writes it anew.
func TestThePublishedScriptIsThisOne(t *testing.T) {
	const file = "../../../docs/ringfence.lua"
	text, sha := redis.FunctionScript()
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if published, err := os.ReadFile(file); err != nil || string(published) != text {
		t.Errorf("%s is of another version (%v): run this test with UPDATE_DOCS=1", file, err)
	}
	if page, err := os.ReadFile("../../../docs/redis.md"); err != nil || !strings.Contains(string(page), sha) {
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
			if err := p.db.Incr(b.Context(), "n").Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fenced", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.call("ringfence_exec", pass, "INCR", "n"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
