package redis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// reading starts a guard in front of a server of its own, whose clients may read without a token.
func reading(t *testing.T) *guarded {
	t.Helper()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--enable-debug-command", "yes"}})
	return before(t, server, setup{Options: Options{ReadOnly: true}})
}

// says sends commands at once and expects the beginnings of their replies.
func (r *raw) says(commands string, replies ...string) {
	r.t.Helper()
	r.send(commands)
	r.expect(replies...)
}

func TestASessionWithoutATokenReadsAndMayClaimLater(t *testing.T) {
	g := reading(t)
	r := g.raw()
	r.says("SET a 1\r\nGET a\r\nPFCOUNT h\r\nEVAL \"return 1\" 0\r\nEVAL_RO \"return 1\" 0\r\nPUBLISH c x\r\n"+
		"SORT l STORE m\r\nSORT_RO l\r\nMEMORY USAGE a\r\nMEMORY PURGE\r\nXREAD BLOCK 0 STREAMS s $\r\n"+
		"OBJECT ENCODING a\r\nNOSUCHCOMMAND\r\nCLIENT KILL ID 1\r\nTOUCH a\r\nGETEX a\r\nINFO\r\n",
		"-NOTOKEN ", "$-1", "-NOTOKEN ", "-NOTOKEN ", "-NOTOKEN ", "-NOTOKEN ",
		"-NOTOKEN ", "*0", "$-1", "-NOTOKEN ", "-NOTOKEN ",
		"$-1", "-NOTOKEN ", "-NOTALLOWED ", ":0", "-NOTOKEN ", "$")
	r.says("FENCE orders 5\r\nSET a 1\r\nGET a\r\n", "+OK", "+OK", "$1\r\n1")
}

func TestATransactionOfReadsRunsAndARefusedCommandAbortsIt(t *testing.T) {
	g := reading(t)
	r := g.raw()
	r.says("WATCH a\r\nMULTI\r\nGET a\r\nDBSIZE\r\nEXEC\r\n", "+OK", "+OK", "+QUEUED", "+QUEUED", "*2\r\n$-1\r\n:")
	r.says("MULTI\r\nGET a\r\nSET a 1\r\nFENCE orders 5\r\nEXEC\r\nGET a\r\n",
		"+OK", "+QUEUED", "-NOTOKEN ", "-NOTALLOWED ", "-EXECABORT", "$-1")
	r.says("MULTI\r\nDISCARD\r\nSET a 1\r\nEXEC\r\n", "+OK", "+OK", "-NOTOKEN ", "-ERR EXEC without MULTI")
	// A watched key that has changed still aborts.
	r.says("WATCH a\r\n", "+OK")
	if err := g.direct().Set(t.Context(), "a", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	r.says("MULTI\r\nGET a\r\nEXEC\r\n", "+OK", "+QUEUED", "*-1")
}

func TestASessionWithoutATokenSubscribes(t *testing.T) {
	for protocol, kind := range map[string]string{"2": "*", "3": ">"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			g := reading(t)
			r := g.raw()
			r.send("HELLO " + protocol + "\r\n")
			_ = r.reply()
			r.send("SUBSCRIBE a b\r\nSET k v\r\nPING\r\nFENCE orders 5\r\nUNSUBSCRIBE a b\r\n")
			for _, want := range []string{
				"subscribe", "subscribe", "-NOTOKEN ", "", "-BADTOKEN ", "unsubscribe", "unsubscribe",
			} {
				if got := r.reply(); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			r.says("SUBSCRIBE c\r\n", kind+"3")
			if n, err := g.direct().Publish(t.Context(), "c", "news").Result(); err != nil || n != 1 {
				t.Fatalf("%d receivers, %v", n, err)
			}
			if got := r.reply(); !strings.Contains(got, "news") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestWithoutALoginThereIsNoSubscription(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	admin := driverTo(t, server.Addr(), nil)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "keeper", "on", ">secret", "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	g := before(t, server, setup{url: "redis://keeper:secret@" + server.Addr(), Options: Options{ReadOnly: true}})
	if err := admin.ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	r := g.raw()
	r.says("SUBSCRIBE a b\r\nGET a\r\nAUTH secret\r\nGET a\r\n", "-NOAUTH ", "-NOAUTH ", "+OK", "$-1")
}

// Any command with any arguments, in transactions and subscriptions too: afterwards the data are as
// before.
func TestNoCommandWithoutATokenChangesAnything(t *testing.T) {
	g := reading(t)
	admin := g.direct()
	fill(t, admin)
	before := digest(t, admin)
	all, err := admin.Do(t.Context(), "COMMAND", "LIST").StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range []string{"xinfo", "object", "memory", "client", "config", "script", "function", "xgroup"} {
		help, err := admin.Do(t.Context(), "COMMAND", "LIST", "FILTERBY", "PATTERN", container+"|*").StringSlice()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, help...)
	}
	words := []string{
		"str", "list", "list2", "set", "zset", "hash", "hll", "stream", "geo", "missing", "0", "1", "-1", "*", "(1",
		"STORE", "STOREDIST", "LIMIT", "COUNT", "GET", "SET", "u8", "INCRBY", "BY", "WITHSCORES", "EX", "PERSIST",
		"STREAMS", "FIELDS", "MATCH", "a", "b", "x", "return redis.call('del', 'str')", "LEFT", "RIGHT", "NX",
	}
	const seeds = 3
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		for _, name := range all {
			switch strings.ToUpper(name) {
			case "QUIT", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
				"AUTH", "HELLO", "MULTI", "EXEC", "DISCARD", "CLIENT", "CLIENT|REPLY":
				continue
			}
			r, wrap := g.raw(), rnd.IntN(3) == 0
			if wrap {
				r.says("MULTI\r\n", "+OK")
			}
			for range 4 {
				command := strings.Split(name, "|")
				for range rnd.IntN(6) {
					command = append(command, words[rnd.IntN(len(words))])
				}
				r.send(array(command...))
				_ = r.reply()
			}
			if wrap {
				r.send("EXEC\r\n")
				_ = r.reply()
			}
			_ = r.conn.Close()
			if after := digest(t, admin); after != before {
				t.Fatalf("seed %d: %s has changed the data", seed, name)
			}
		}
	}
}

// fill writes a key of each type.
func fill(t *testing.T, db *driver.Client) {
	t.Helper()
	for _, command := range []string{
		"SET str 1", "RPUSH list 1 2 3", "RPUSH list2 4 5", "SADD set a b 1", "ZADD zset 1 a 2 b", "HSET hash a 1 b 2",
		"PFADD hll a b c", "XADD stream 1-1 a 1", "XGROUP CREATE stream a 0", "GEOADD geo 13 38 a 15 37 b",
	} {
		var args []any
		for _, word := range strings.Fields(command) {
			args = append(args, word)
		}
		if err := db.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

// digest describes all data, functions, users and settings.
func digest(t *testing.T, db *driver.Client) string {
	t.Helper()
	var all strings.Builder
	for _, command := range [][]any{
		{"DEBUG", "DIGEST"}, {"DBSIZE"}, {"FUNCTION", "LIST"}, {"ACL", "LIST"}, {"CONFIG", "GET", "maxmemory*"},
		{"XINFO", "STREAM", "stream", "FULL"}, {"XINFO", "CONSUMERS", "stream", "a"},
	} {
		v, err := db.Do(t.Context(), command...).Result()
		if err != nil {
			t.Fatalf("%v: %v", command, err)
		}
		fmt.Fprintln(&all, v)
	}
	return all.String()
}
