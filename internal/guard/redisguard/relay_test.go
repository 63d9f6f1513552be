package redisguard

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/marks/redismarks"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/test/poll"
)

// refusedAlways has at least one of each kind of command that the guard refuses by name.
var refusedAlways = []string{
	"FLUSHALL", "flushdb ASYNC", "SWAPDB 0 1", "SHUTDOWN NOSAVE", "REPLICAOF NO ONE",
	"SLAVEOF 127.0.0.1 1", "FAILOVER",
	"DEBUG SLEEP 0", "MODULE LOAD /x.so", "MODULE UNLOAD x", "MODULE LOADEX x", "ACL SETUSER x on",
	"ACL DELUSER x", "ACL LOAD", "ACL SAVE",
	"ACL LOG RESET", "CONFIG SET appendonly no", "CONFIG REWRITE", "CLIENT KILL ID 1",
	"CLIENT KILL 127.0.0.1:1", "CLIENT PAUSE 1000",
	"client maint_notifications ON", "MONITOR", "SYNC", "PSYNC ? -1", "REPLCONF ACK 1",
	"CLUSTER RESET", "CLUSTER FORGET x", "CLUSTER FAILOVER",
	"DEL ringfence", "HSET ringfence:orders token 9", "GET ringfence:orders",
	"RENAME a ringfence:orders", "COPY a ringfence",
	"MSET a 1 ringfence:.audit 2", "EVAL \"return 1\" 1 ringfence",
	"RESTORE \"ringfence:orders\" 0 x", "\"FLUSH\"ALL",
	"SORT a STORE ringfence:orders", "MIGRATE h 1 \"\" 0 10 KEYS ringfence",
}

func TestRefusedCommandsAreAnsweredInTheirPlace(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		r := g.raw()
		r.send(hello + "\r\nFENCE orders 5\r\n")
		r.reply()
		r.expect("+OK")
		var pipeline strings.Builder
		for i, c := range refusedAlways {
			if strings.HasPrefix(c, "\"FLUSH\"") {
				c = "\"FLUSHALL\""
			}
			fmt.Fprintf(&pipeline, "SET a %d\r\n%s\r\nGET a\r\n", i, c)
		}
		r.send(pipeline.String())
		for i, c := range refusedAlways {
			r.expect("+OK", "-NOTALLOWED", fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(i)), i))
			_ = c
		}
		r.send("ACL WHOAMI\r\nCONFIG GET maxmemory\r\nCLIENT ID\r\nCLUSTER INFO\r\nMODULE LIST\r\n")
		r.expect("$7\r\ndefault", anyReply, anyReply, "-ERR", anyReply)
	}
	marks, err := g.store.Marks(t.Context())
	if err != nil || len(marks) != 1 || marks[0].Token != 5 || marks[0].Sessions == 0 {
		t.Errorf("marks %+v, %v", marks, err)
	}
}

func TestARefusedCommandAbortsATransactionAsInRedis(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	r.send("MULTI\r\nSET a 1\r\nFLUSHALL\r\nSET b 1\r\nEXEC\r\nEXISTS a b\r\n")
	r.expect("+OK", "+QUEUED", "-NOTALLOWED", "+QUEUED", "-EXECABORT", ":0")
	r.send("MULTI\r\nSET a 1\r\nSET b 1\r\nEXEC\r\nEXISTS a b\r\n")
	r.expect("+OK", "+QUEUED", "+QUEUED", "*2\r\n+OK\r\n+OK\r\n", ":2")
}

func TestASubscriberGetsTheAnswerToARefusedCommand(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		r := g.raw()
		r.send(hello + "\r\nFENCE orders 5\r\nSUBSCRIBE ch\r\nFLUSHALL\r\nPING\r\n")
		r.reply()
		r.expect("+OK", anyReply, "-NOTALLOWED", anyReply)
		if n := g.direct().Publish(t.Context(), "ch", "hello").Val(); n == 0 {
			t.Error("nobody listens")
		}
		if got := r.reply(); !strings.Contains(got, "hello") {
			t.Errorf("%s: got %q", hello, got)
		}
		_ = r.conn.Close()
	}
}

func TestASessionKeepsItsTokenForLife(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	r.send("FENCE orders 5\r\nFENCE orders 6\r\nFENCE stock 5\r\nFENCE orders\r\n" +
		"CLIENT SETNAME fence.orders=5\r\nCLIENT SETNAME fence.orders=6\r\n" +
		"CLIENT SETNAME fence.orders.5\r\nCLIENT SETNAME fence.orders.6\r\n" +
		"HELLO 3 SETNAME fence.orders=4\r\nCLIENT SETNAME me\r\nMULTI\r\nFENCE orders 5\r\n" +
		"DISCARD\r\nRESET\r\nFENCE orders 5\r\nSET a 1\r\n")
	r.expect("+OK", "-BADTOKEN a session keeps its token", "-BADTOKEN",
		"-BADTOKEN FENCE takes pairs", "+OK", "-BADTOKEN", "+OK", "-BADTOKEN", "-BADTOKEN", "+OK",
		"+OK", "-NOTALLOWED", "+OK", "+RESET", "+OK", "+OK")
	fresher := g.fenced(6)
	r.expect("-STALETOKEN")
	fresher.send("FENCE orders 6\r\n")
	fresher.expect("+OK")
}

// array returns a command as RESP.
func array(words ...string) string { return string(redismarks.Command(words...)) }

func TestCommandsLargerThanTheBufferAreForwardedUnchanged(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	big := strings.Repeat("x", 5*relay.BufferSize+7)
	many := []string{"RPUSH", "list"}
	for i := range 9000 {
		many = append(many, fmt.Sprint(i))
	}
	r.send(array("SET", "a", big) + array(many...) + array("STRLEN", "a") + array("LLEN", "list") +
		array("GET", "a"))
	r.expect("+OK", ":9000", fmt.Sprintf(":%d", len(big)), ":9000")
	if got := r.reply(); got != fmt.Sprintf("$%d\r\n%s\r\n", len(big), big) {
		t.Errorf("read back %d bytes", len(got))
	}
	refused := append([]string{"FLUSHALL"}, many...)
	r.send(array("PING") + array(refused...) + array("LLEN", "list"))
	r.expect("+PONG", "-NOTALLOWED", ":9000")
}

// When the guard reads the forbidden key, it has already forwarded the beginning of the command. It
// ends the session, and Redis executes nothing.
func TestAForbiddenKeyLateInALargeCommandEndsTheSession(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for _, late := range []string{"ringfence:orders", "ringfence"} {
		r := g.fenced(5)
		words := []string{"MSET"}
		for i := range 4000 {
			words = append(words, fmt.Sprint("k", i), "v")
		}
		r.send("SET before 1\r\n" + array(append(words, late, "9")...) + array("SET", "after", "1"))
		r.expect("+OK", "-NOTALLOWED")
		r.ended()
	}
	if n := g.direct().Exists(t.Context(), "k0", "after").Val(); n != 0 {
		t.Error("the command, or one after it, was executed")
	}
}

func TestMalformedCommandsAreNotForwarded(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	for _, bad := range []string{
		"*x\r\n", "*3000000000\r\n", "*1\r\n$-1\r\n", "*1\r\n$x\r\n", "*1\r\n:1\r\n",
		"*1\n$4\nPING\n", "*-x\r\n", "*01\r\n$4\r\nPING\r\n",
		"*1\r\n$99999999999999999999\r\nx", "*2\r\n$3\r\nGET\r\n$1\r\nabc\r\n",
		"SET a \"unbalanced\r\n", "SET a 'b'c\r\n", "SET a \x00b\r\n",
		strings.Repeat("x", maxInline+2), "*1\r\r$4\r\nPING\r\n", "*\r\n", "*1\r\n$\r\n",
		"*+1\r\n$4\r\nPING\r\n",
	} {
		early, late := g.raw(), g.fenced(5)
		for _, r := range []*raw{early, late} {
			r.send("PING\r\n" + bad)
			r.expect("+PONG", "-ERR Protocol error")
			r.ended()
		}
	}
	if n := g.direct().DBSize(t.Context()).Val(); n != 3 {
		t.Errorf("%d keys, want the guard's three", n)
	}
}

// The same commands on two fresh servers, directly and through the guard, have the same answers to
// the byte.
func TestTheGuardChangesNoAnswer(t *testing.T) {
	t.Parallel()
	const seed = 7
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		g, plain := fresh(t), fresh(t)
		through, direct := g.fenced(5), dialRaw(t, plain.server.Addr())
		for _, r := range []*raw{through, direct} {
			r.send(hello + "\r\n")
			r.reply()
		}
		rnd := rand.New(rand.NewPCG(seed, uint64(len(hello))))
		for range 60 {
			var pipeline bytes.Buffer
			n := 1 + rnd.IntN(30)
			for range n {
				pipeline.WriteString(workload(rnd))
			}
			pipeline.WriteString(array("ECHO", "the end"))
			var got [2][]string
			for i, r := range []*raw{through, direct} {
				r.send(pipeline.String())
				for {
					reply := r.reply()
					got[i] = append(got[i], reply)
					if reply == "$7\r\nthe end\r\n" ||
						strings.Contains(reply, "EXECABORT the end") || len(got[i]) > n+5 {
						break
					}
				}
			}
			if a, b := strings.Join(got[0], ""), strings.Join(got[1], ""); a != b {
				t.Fatalf("%q:\nthrough the guard %q\ndirectly          %q", pipeline.String(), a, b)
			}
		}
	}
}

// workload returns a random command or a whole transaction.
func workload(rnd *rand.Rand) string {
	k := func() string { return fmt.Sprint("k", rnd.IntN(6)) }
	switch rnd.IntN(18) {
	case 0:
		return array("SET", k(), strings.Repeat("v\r\n", rnd.IntN(9000)))
	case 1:
		return array("GET", k())
	case 2:
		return "INCR " + k() + "\r\n"
	case 3:
		return array("DEL", k(), k())
	case 4:
		return array("RPUSH", k(), "a", "", "c")
	case 5:
		return array("LRANGE", k(), "0", "-1")
	case 6:
		return array("HSET", k(), "f", "1.5", "g", "\x00\xff")
	case 7:
		return array("HGETALL", k())
	case 8:
		return array("MULTI") + array("INCR", k()) + array("LRANGE", k(), "0", "-1") + array("EXEC")
	case 9:
		return array("MULTI") + array("INCR") + array("EXEC")
	case 10:
		return array("EVAL",
			"return {1, {2, 'three', {err='ERR in a reply'}}, false, redis.call('GET', KEYS[1])}",
			"1", k())
	case 11:
		return array("GETRANGE", k(), "too few")
	case 12:
		return array("ZADD", k(), "1.25", "m") + array("ZRANGE", k(), "0", "-1", "WITHSCORES")
	case 13:
		return array("LPOP", k()) + array("MGET", k(), k(), k())
	case 14:
		return array("SADD", k(), "m") + array("SMEMBERS", k())
	case 15:
		return array("TYPE", k()) + array("OBJECT", "ENCODING", k())
	case 16:
		return "\r\nWATCH " + k() + "\r\n*0\r\nUNWATCH\r\n"
	}
	return array("COMMAND", "INFO", "GET", "MULTI")
}

func TestTheRecordOfAClientThatLeavesIsRemoved(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	blocked := g.fenced(5)
	blocked.send("BLPOP nothing 0\r\n")
	quit := g.fenced(5)
	quit.send("QUIT\r\n")
	quit.expect("+OK", "")
	_ = blocked.conn.Close()
	idle := g.fenced(5)
	_ = idle.conn.Close()
	if !poll.Until(30*time.Second, func() bool { return g.recorded() == 0 }) {
		t.Fatalf("%d sessions are still recorded", g.recorded())
	}
}

// A client may half-close its connection and read the remaining answers.
func TestAClientMayHalfClose(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	r := g.fenced(5)
	r.send("SET a 1\r\nGET a\r\n")
	closeWrite(t, r)
	r.expect("+OK", "$1\r\n1", "")
}

func closeWrite(t *testing.T, r *raw) {
	t.Helper()
	if err := r.conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}
