package redisguard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestBeforeTheTokenAClientMayLogInAndNameItself(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.raw()
	r.says("\r\nPING\r\nSET a 1\r\nGET a\r\nEVAL \"return 1\" 0\r\nCLIENT SETNAME me\r\nCLIENT ID\r\n"+
		"CLIENT GETNAME\r\nMADEUP a\r\nCLIENT KILL ID 1\r\nFLUSHALL\r\nSUBSCRIBE a\r\nMULTI\r\n"+
		"SELECT 1\r\nCLIENT REPLY OFF\r\nCLIENT NO-EVICT ON\r\nCOMMAND COUNT\r\nINFO\r\nSCRIPT KILL\r\n"+
		"SCRIPT LOAD x\r\nCLIENT\r\n",
		"+PONG", "-NOTOKEN SET needs a token", "-NOTOKEN", "-NOTOKEN", "+OK", ":", "-NOTOKEN CLIENT "+
			"GETNAME",
		"-NOTALLOWED MADEUP", "-NOTALLOWED CLIENT KILL", "-NOTALLOWED FLUSHALL", "-NOTOKEN", "-NOTOKEN",
		"+OK", "-NOTOKEN", "-NOTOKEN", ":", "$", "-NOTBUSY", "-NOTOKEN", "-NOTALLOWED CLIENT")
	r.says("FENCE orders 5\r\nSET a 2\r\nGET a\r\nCLIENT GETNAME\r\n", "+OK", "+OK", "$1\r\n2",
		"$2\r\nme")
	r.says("QUIT\r\n", "+OK", "")
}

func TestAfterAResetTheNameIsForgotten(t *testing.T) {
	t.Parallel()
	r := fresh(t).raw()
	r.says("CLIENT SETNAME me\r\nRESET\r\nFENCE orders 5\r\nCLIENT GETNAME\r\n", "+OK", "+RESET",
		"+OK", "$-1")
}

// Every command of the table with each of its subcommands, with and without arguments.
func TestBeforeTheTokenNothingChangesAnything(t *testing.T) {
	t.Parallel()
	g := fresh(t, "--enable-debug-command", "yes")
	admin := g.direct()
	fill(t, admin)
	before := digest(t, admin)
	for name, r := range eachCommand() {
		if r.effect == mayClaim || r.effect == endsSession {
			continue
		}
		words := strings.Split(name, "|")
		for _, arguments := range []string{"", "str", "str 1", "list list2 1", "0 str", "stream a 1-1",
			"1 hash 2 3"} {
			c := g.raw()
			c.send(array(append(words, strings.Fields(arguments)...)...))
			if got := c.reply(); !r.early && !strings.HasPrefix(got, "-NOT") {
				t.Errorf("%s %s: %q", name, arguments, got)
			}
			_ = c.conn.Close()
		}
	}
	if after := digest(t, admin); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}

// fill writes a key of each type.
func fill(t *testing.T, db *driver.Client) {
	t.Helper()
	for _, command := range []string{
		"SET str 1", "RPUSH list 1 2 3", "RPUSH list2 4 5", "SADD set a b 1", "ZADD zset 1 a 2 b",
		"HSET hash a 1 b 2",
		"PFADD hll a b c", "XADD stream 1-1 a 1", "XGROUP CREATE stream a 0",
		"GEOADD geo 13 38 a 15 37 b",
	} {
		if err := db.Do(t.Context(), anys(command)...).Err(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

// digest describes all data, functions, users and settings.
func digest(t *testing.T, db *driver.Client) string {
	t.Helper()
	var all strings.Builder
	for _, command := range []string{
		"DEBUG DIGEST", "DBSIZE", "FUNCTION LIST", "ACL LIST", "CONFIG GET maxmemory*", "XINFO STREAM " +
			"stream FULL",
	} {
		v, err := db.Do(t.Context(), anys(command)...).Result()
		if err != nil {
			t.Fatalf("%v: %v", command, err)
		}
		fmt.Fprintln(&all, v)
	}
	return all.String()
}

// anys returns the words of a command as a driver takes them.
func anys(text string) (words []any) {
	for _, w := range strings.Fields(text) {
		words = append(words, w)
	}
	return words
}

// Nobody is admitted while a script runs, so the client that ends it has no token.
func TestAScriptThatBlocksRedisCanBeEndedThroughTheGuard(t *testing.T) {
	t.Parallel()
	g := fresh(t, "--busy-reply-threshold", "20")
	leader := g.fenced(5)
	leader.send(array("FUNCTION", "LOAD",
		"#!lua name=lib\nredis.register_function('loop', function() while true do end end)"))
	leader.expect("$3\r\nlib")
	for _, c := range []struct{ run, check, want, kill string }{
		{array("EVAL", "while true do end", "0"), "PING", "-BUSY", "SCRIPT KILL"},
		{array("FCALL", "loop", "0"), "PING", "-BUSY", "FUNCTION KILL"},
	} {
		leader.send(c.run)
		g.busy()
		operator := g.raw()
		operator.send(c.check + "\r\n" + c.kill + "\r\n")
		operator.expect(c.want, "+OK")
		leader.expect("-ERR")
		operator.send("PING\r\n")
		operator.expect("+PONG")
	}
}

func TestATokenIsCarriedByFenceSetnameOrHello(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for i, first := range []string{
		"FENCE orders %d\r\n",
		"*3\r\n$5\r\nfence\r\n$6\r\norders\r\n$1\r\n%d\r\n",
		"CLIENT SETNAME fence.orders=%d\r\n",
		"CLIENT SETNAME fence.orders.%d\r\n",
		"HELLO 3 SETNAME fence.orders.%d\r\n",
		"HELLO 2 SETNAME fence.orders=%d\r\n",
		"HELLO 3 SETNAME fence.orders=%d\r\n",
		"FENCE orders %d stock 1\r\n",
	} {
		r := g.raw()
		r.send(fmt.Sprintf(first, i+1) + "RPUSH written x\r\n")
		reply := r.reply()
		if strings.HasPrefix(reply, "-") {
			t.Fatalf("%q: %s", first, reply)
		}
		r.expect(fmt.Sprintf(":%d\r\n", i+1))
		marks, err := g.store.Marks(t.Context(), "orders")
		if err != nil || len(marks) != 1 || int(marks[0].Token) != i+1 {
			t.Fatalf("%q: marks %+v, %v", first, marks, err)
		}
		r.send("CLIENT GETNAME\r\n")
		name, named := r.reply(), strings.Contains(first, "NAME")
		if strings.Contains(name, "fence.orders") != named {
			t.Errorf("%q: the name is %q", first, name)
		}
	}
}

func TestMalformedClaimsAreRefusedAndRaiseNothing(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for _, claim := range []string{
		"FENCE", "FENCE orders", "FENCE orders 0", "FENCE orders -1",
		"FENCE orders 9223372036854775808", "FENCE orders text",
		"FENCE orders \"\"", "FENCE \"\" 5", "FENCE orders 5 stock", "FENCE orders 5 orders 6",
		"FENCE orders 5 orders 5", "FENCE Orders 5",
		"FENCE or-ders 5", "FENCE orders 05", "FENCE orders +5", "FENCE orders 5.0",
		"FENCE orders \"5 \"", "FENCE \"orders\\r\\n-ERR\" 5",
		"CLIENT SETNAME fence.orders", "CLIENT SETNAME fence.orders=", "CLIENT SETNAME fence.=5",
		"CLIENT SETNAME fence.orders=0", "CLIENT SETNAME fence.",
		"CLIENT SETNAME fence.orders.", "CLIENT SETNAME fence..5", "CLIENT SETNAME fence.orders.x",
		"CLIENT SETNAME fence.orders.5.6",
		"CLIENT SETNAME fence.orders=5.6", "CLIENT SETNAME fence.orders.5=6",
		"CLIENT SETNAME fence.a.b=5", "CLIENT SETNAME fence.a=b.5",
		"HELLO 3 SETNAME fence.orders=x", "HELLO 3 AUTH default x SETNAME fence.orders=x",
		"FENCE orders " + strings.Repeat("9", 5000),
	} {
		r := g.raw()
		r.send(claim + "\r\nPING\r\nSET a 1\r\n")
		r.expect("-BADTOKEN", "-BADTOKEN", "-BADTOKEN")
		if strings.HasPrefix(claim, "FENCE") {
			r.ended()
			continue
		}
		r.send("PING\r\n") // a driver that ignored the error gets it again
		r.expect("-BADTOKEN")
		_ = r.conn.Close()
	}
	if marks, err := g.store.Marks(t.Context()); err != nil || len(marks) > 0 {
		t.Errorf("marks %+v, %v", marks, err)
	}
	if n := g.direct().Exists(t.Context(), "a").Val(); n != 0 {
		t.Error("a refused session has written")
	}
}

func TestAStaleClaimIsRefusedWithOneErrorForEachCommand(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	fresh := g.fenced(6)
	for _, claim := range []string{"FENCE orders 5", "CLIENT SETNAME fence.orders=5",
		"HELLO 3 SETNAME fence.orders=5"} {
		r := g.raw()
		r.send("PING\r\n" + claim + "\r\nSET a 1\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n")
		r.expect("+PONG", "-STALETOKEN stale token: 5 is older than the mark 6",
			"-STALETOKEN", "-STALETOKEN")
		if strings.HasPrefix(claim, "FENCE") {
			r.ended()
		}
		if strings.HasPrefix(claim, "HELLO") {
			time.Sleep(silentTime / 3) // a driver may wait before its next command
			r.send("PING\r\n")
			r.expect("-STALETOKEN")
		}
	}
	fresh.send("EXISTS a\r\n")
	fresh.expect(":0")
}

func TestAClientThatIsNotLoggedInCannotRaiseAMark(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	g := before(t, server, setup{change: func(p *Protocol) {
		if err := p.Ready(t.Context()); err != nil { // logs in while it may
			t.Fatal(err)
		}
	}})
	admin := g.direct()
	for _, rule := range []string{"keeper on >kept ~* +@all", "app on >secret ~* +@all",
		"weak on >weak ~* +@read", "default off"} {
		must.Succeed(t, admin.Do(t.Context(), anys("ACL SETUSER "+rule)...).Err())
	}
	r := g.raw()
	r.send("FENCE orders 5\r\nCLIENT SETNAME fence.orders=5\r\n" +
		"HELLO 3 AUTH app wrong SETNAME fence.orders=5\r\nAUTH app wrong\r\nINFO\r\n")
	r.expect("-NOAUTH", "-NOAUTH", "-WRONGPASS", "-WRONGPASS", "-NOAUTH")
	r.send("AUTH weak weak\r\nFENCE orders 5\r\n")
	r.expect("+OK", "-NOPERM")
	if marks, err := g.store.Marks(t.Context()); err == nil && len(marks) > 0 {
		t.Errorf("marks %+v", marks)
	}
	r.send("AUTH app secret\r\nFENCE orders 5\r\nSET a 1\r\n")
	r.expect("+OK", "+OK", "+OK")
}

func TestASilentClientIsNotServedForever(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--requirepass", "secret"}})
	if _, err := redismarks.Open(t.Context(), server.URL(), redismarks.Options{}); err == nil {
		t.Fatal("opened without a password")
	}
	server = serverstest.SharedRedis(t)
	g := before(t, server, setup{Options: Options{LoginTimeout: 3 * time.Second}})
	silent, noisy, early := g.raw(), g.raw(), g.raw()
	noisy.send("SET a 1\r\n")
	early.send("PING\r\n")
	early.expect("+PONG")
	silent.expect("-ERR guard: ")
	silent.ended()
	noisy.expect("-", "-ERR guard: ")
	noisy.ended()
	early.send("PING\r\n") // this is later than the timeout
	early.expect("+PONG")
}

func TestOnlyTheServedResourcesMayBeClaimed(t *testing.T) {
	t.Parallel()
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{
		Options: Options{Resources: []fence.Resource{"orders"}},
	})
	r := g.raw()
	r.send("FENCE stock 5\r\n")
	r.expect("-BADTOKEN")
	g.fenced(5)
}

func TestARefusalIsOneLineWithItsCode(t *testing.T) {
	t.Parallel()
	observer := &failingObserver{}
	g := before(t, serverstest.Redis(t, servers.RedisOptions{}), setup{Options: Options{
		Admission: &marks.Admission{Authority: &marks.Elected{Observer: observer}},
	}})
	r := g.raw()
	r.send("FENCE orders 5\r\n")
	reply := r.reply()
	if !strings.HasPrefix(reply, "-NOCOORDINATOR ") || strings.Count(reply, "\n") != 1 ||
		!strings.Contains(reply, "unreachable  -ERR forged") {
		t.Errorf("got %q", reply)
	}
	r.ended()
}

func TestWithoutTheMarkerKeyTheGuardAnswersNotInstalled(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	g.direct().FlushAll(t.Context())
	r := g.raw()
	r.send("FENCE orders 5\r\n")
	r.expect("-NOTINSTALLED")
	if err := redismarks.NewRaiser("redis://"+g.Addr).Raise(t.Context(),
		fence.Claim{Resource: "orders", Token: 5}); !errors.Is(err, fence.ErrNotInstalled) {
		t.Errorf("raise: %v", err)
	}
}

func TestARaiserRaisesThroughTheGuard(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	old := g.fenced(5)
	r := redismarks.NewRaiser("redis://" + g.Addr)
	must.Succeed(t, r.Raise(t.Context(), fence.Claim{Resource: "orders", Token: 6}))
	old.expect("-STALETOKEN")
	err := r.Raise(t.Context(), fence.Claim{Resource: "orders", Token: 5})
	if !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token: %v", err)
	}
}

func TestARefusalSaysThatRedisIsDown(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	must.Succeed(t, g.server.Kill())
	r := g.raw()
	r.send("PING\r\n")
	r.expect("-ERR guard: cannot reach Redis")
	r.ended()
}

// StackExchange.Redis, Lettuce and others send the whole login in one write. Before Redis 7.2,
// CLIENT SETINFO is an error.
func TestALoginInOneWriteIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	const setInfo = "*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$2\r\nSE\r\n"
	direct := dialRaw(t, g.server.Addr())
	direct.send(setInfo)
	setInfoAnswer := direct.reply()
	r := g.raw()
	r.send("*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$6\r\nnobody\r\n") // not complete yet
	r.send("$1\r\nx\r\n")
	r.expect("-WRONGPASS")
	r.send("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$1\r\nx\r\n" +
		"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$14\r\nfence.orders=5\r\n" + setInfo +
		"*3\r\n$5\r\nRPUSH\r\n$7\r\nwritten\r\n$1\r\nx\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n")
	r.expect("%7", "+OK", "+OK", setInfoAnswer, ":1", ":1")
}

// Drivers have an option for the client name.
func TestGoRedisIsFencedByItsClientName(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for i, protocol := range []int{2, 3} {
		token := i + 1
		c := driverTo(t, g.Addr, func(o *driver.Options) {
			o.Protocol, o.ClientName = protocol, fmt.Sprintf("fence.orders=%d", token)
		})
		if err := c.Set(t.Context(), "a", "1", 0).Err(); err != nil {
			t.Fatalf("RESP%d: %v", protocol, err)
		}
		stale := driverTo(t, g.Addr, func(o *driver.Options) {
			o.Protocol, o.ClientName = protocol, fmt.Sprintf("fence.orders=%d", token-i)
		})
		err := stale.Set(t.Context(), "a", "stale", 0).Err()
		if i > 0 && !driver.HasErrorPrefix(err, "STALETOKEN") {
			t.Errorf("RESP%d: a stale client got %v", protocol, err)
		}
	}
}
