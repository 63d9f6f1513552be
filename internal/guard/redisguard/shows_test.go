package redisguard

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An operator sees of a refused command only that Redis has counted one error. This holds for a
// user with hardly any rights and in every state of the connection.
func TestRedisCountsARefusedCommandAsOneError(t *testing.T) {
	t.Parallel()
	for state, enter := range map[string]string{"RESP2": "", "RESP3": "HELLO 3\r\n",
		"subscribed": "SUBSCRIBE ch\r\n", "subscribed in RESP3": "HELLO 3\r\nSUBSCRIBE ch\r\n"} {
		t.Run(state, func(t *testing.T) {
			// not a shared server, which would count the end of other sessions
			g := fresh(t, "--slowlog-log-slower-than", "0")
			admin := g.direct()
			do := func(text string) any { return admin.Do(t.Context(), anys(text)...).Val() }
			do("ACL SETUSER app on >secret +client|id +client|setname +hello +subscribe &*")
			r, monitor := g.raw(), dialRaw(t, g.server.Addr())
			r.send("AUTH app secret\r\nFENCE orders 5\r\n" + enter)
			r.expect("+OK", "+OK")
			for range strings.Count(enter, "\r\n") {
				r.reply()
			}
			monitor.send("MONITOR\r\n")
			monitor.expect("+OK")
			// Valkey
			do("CONFIG SET commandlog-request-larger-than 0 commandlog-reply-larger-than 0")
			do("CONFIG RESETSTAT")
			do("SLOWLOG RESET")
			do("ACL LOG RESET")
			r.send("FLUSHALL\r\n")
			r.expect("-NOTALLOWED")

			got := counted.FindAllString(do("INFO everything").(string), -1)
			if !slices.Equal(got, []string{"total_error_replies:1", "errorstat_ERR:count=1"}) {
				t.Errorf("counted: %q", got)
			}
			if denied := do("ACL LOG").([]any); len(denied) > 0 {
				t.Errorf("the log of denials has %v", denied)
			}
			seen := g.slow()
			do("ECHO the-end")
			seen += monitor.until("the-end\"\r\n")
			if strings.Contains(seen, "RINGFENCE") || strings.Contains(seen, "FLUSHALL") ||
				!strings.Contains(seen, "RESET") {
				t.Errorf("MONITOR and SLOWLOG show %s", seen)
			}
		})
	}
}

// slow returns the SLOWLOG, and Valkey's logs of large requests and replies.
func (g *guarded) slow() string {
	g.t.Helper()
	lists := []any{g.direct().Do(g.t.Context(), "SLOWLOG", "GET", -1).Val()}
	for _, list := range []string{"slow", "large-request", "large-reply"} {
		entries, err := g.direct().Do(g.t.Context(), "COMMANDLOG", "GET", -1, list).Result()
		if err != nil && !strings.HasPrefix(err.Error(), "ERR unknown command") {
			g.t.Fatal(err)
		}
		lists = append(lists, entries)
	}
	return fmt.Sprint(lists...)
}

// The package documentation promises what an operator sees of the guard's own traffic.
func TestTheDocumentationSaysWhatAnOperatorSeesOfTheGuardInRedis(t *testing.T) {
	t.Parallel()
	g := fresh(t, "--slowlog-log-slower-than", "0", "--notify-keyspace-events", "KEA")
	all, own := dialRaw(t, g.server.Addr()), dialRaw(t, g.server.Addr())
	events, monitor := dialRaw(t, g.server.Addr()), dialRaw(t, g.server.Addr())
	all.send("HELLO 3\r\nCLIENT TRACKING ON BCAST\r\n")
	all.expect("%", "+OK")
	own.send("HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX app:\r\n")
	own.expect("%", "+OK")
	events.send("PSUBSCRIBE __keyspace*\r\n")
	events.expect("*3")
	monitor.send("MONITOR\r\n")
	monitor.expect("+OK")
	g.fenced(5) // begins the watch on the server
	g.operator("CONFIG RESETSTAT")

	r := g.raw()
	r.send("CLIENT SETNAME mine\r\nFENCE orders 6\r\nCLIENT GETNAME\r\n")
	r.expect("+OK", "+OK", "$4\r\nmine")
	info := g.direct().Info(t.Context(), "everything").Val()
	for _, counts := range []string{"cmdstat_client|id:calls=1,", "cmdstat_client|setname:calls=3,",
		"cmdstat_client|getname:calls=1,", "errorstat_NOSCRIPT:", "cmdstat_evalsha:"} {
		if !strings.Contains(info, "\n"+counts) {
			t.Errorf("INFO does not count %s", counts)
		}
	}
	cached := regexp.MustCompile(`number_of_cached_scripts:(\d+)`).FindStringSubmatch(info)
	scripts, err := strconv.Atoi(cached[1])
	if err != nil || scripts == 0 || scripts > 10 {
		t.Errorf("%d cached scripts, %v", scripts, err)
	}
	keys := g.direct().Keys(t.Context(), "*").Val()
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"ringfence", "ringfence:.original", "ringfence:orders"}) {
		t.Errorf("the keys are %q", keys)
	}
	list := g.direct().ClientList(t.Context()).Val()
	if strings.Count(list, " name=ringfence-guard ") == 0 ||
		strings.Count(list, " name=mine ") != 1 {
		t.Errorf("the clients are %s", list)
	}
	if seen := g.slow(); !strings.Contains(seen, "ringfence:orders") {
		t.Errorf("SLOWLOG has %s", seen)
	}
	monitor.until("\"evalsha\"")
	events.until("__keyspace@0__:ringfence:orders")
	all.expect(">2\r\n$10\r\ninvalidate\r\n*2\r\n$9\r\nringfence\r\n$16\r\nringfence:orders")
	own.send("PING\r\n")
	own.expect("+PONG")
}

// counted matches INFO's counters of errors, and of commands that this test does not send. The
// watch sends CLIENT LIST all the time.
var counted = regexp.MustCompile(`(?m)^(total_error_replies:\d+|errorstat_[^,\r]+|` +
	`cmdstat_(client\|(?:id|setname|getname|kill|no)|hello|auth|echo|ping|flush|eval)[^:]*)`)
