package redisguard

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Redis runs a debugged script in a fork, and the session has gone from CLIENT LIST. The fork could
// write by MIGRATE to its own server, long after a newer leader has come.
func TestNoScriptGoesOnInAForkAfterItsSession(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	host, port, _ := strings.Cut(g.server.Addr(), ":")
	older := g.fenced(5)
	older.send("SCRIPT DEBUG YES\r\n")
	if got := older.reply(); strings.HasPrefix(got, "+OK") {
		older.send(array("EVAL", fmt.Sprintf("redis.call('SET', 'k', 'stale')\n"+
			"return redis.call('MIGRATE', '%s', '%s', 'k', 0, 5000, 'REPLACE')", host, port), "0"))
		older.expect("*")
	} else if !strings.Contains(got, "a fork that goes on") {
		t.Errorf("SCRIPT DEBUG YES: %q", got)
	}
	g.fenced(6).says("SET k newer\r\n", "+OK")
	_, _ = older.conn.Write([]byte(array("continue")))
	for older.reply() != "" {
	}
	if k := g.direct().Get(t.Context(), "k").Val(); k != "newer" {
		t.Errorf("the older leader has written %q over the newer one", k)
	}
}

// silent returns the address of a server that takes connections and never says anything.
func silent(t *testing.T) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	host, port, _ = strings.Cut(l.Addr().String(), ":")
	return host, port
}

// An older leader's single command must not keep Redis from admitting the next one.
func TestNoCommandOfTheOlderLeaderHoldsUpRedis(t *testing.T) {
	t.Parallel()
	host, port := silent(t)
	for name, commands := range map[string]string{
		"a script in the debugger": "SCRIPT DEBUG SYNC\r\nEVAL \"return 1\" 0\r\n",
		"a migration to nowhere":   "SET k v\r\nMIGRATE " + host + " " + port + " k 0 600000\r\n",
		"a migration of several keys": "SET k v\r\nmigrate " + host + " " + port + " \"\" 0 600000 " +
			"COPY KEYS k l\r\n",
		"a pause of all commands":      "CLIENT PAUSE 600000 ALL\r\n",
		"a test of Redis itself":       strings.Repeat("PFSELFTEST\r\n", 20),
		"a debugged sleep":             "DEBUG SLEEP 600\r\n",
		"a failover that never begins": "FAILOVER TO " + host + " " + port + " TIMEOUT 600000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := serverstest.Redis(t,
				servers.RedisOptions{Args: []string{"--enable-debug-command", "yes"}})
			g := before(t, server, setup{})
			g.fenced(5).send(commands)
			g.fenced(6).says("SET k newer\r\n", "+OK")
		})
	}
}

func TestOneSessionCannotClaimThousandsOfResources(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	many := func(n int) string {
		words := []string{"FENCE"}
		for i := range n {
			words = append(words, fmt.Sprint("r", i), "5")
		}
		return array(words...)
	}
	r := g.raw()
	r.says(many(3500), "-BADTOKEN a session claims 32 resources at most")
	r.ended()
	g.raw().says(many(refusal.MaxClaims+1), "-BADTOKEN")
	if marks, err := g.store.Marks(t.Context()); err != nil || len(marks) > 0 {
		t.Errorf("%d marks, %v", len(marks), err)
	}
	most := g.raw()
	most.says(many(refusal.MaxClaims)+many(refusal.MaxClaims)+many(200), "+OK", "+OK", "-BADTOKEN a "+
		"session claims 32")
}

// A renamed command is unknown to the guard, so no session removes the marks with it.
func TestARenamedCommandDoesNotPass(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{
		"--rename-command", "FLUSHALL", "XFLUSH", "--rename-command", "SWAPDB", "X.Y",
		"--rename-command", "DEBUG", "inspect", "--rename-command", "CONFIG",
		"a_very_long_name_for_a_command_of_redis",
	}})
	g := before(t, server, setup{})
	r := g.fenced(5)
	for _, command := range []string{
		"XFLUSH", "xflush ASYNC", "X.Y 0 1", "INSPECT SLEEP 1",
		"a_very_long_name_for_a_command_of_redis SET appendonly no",
	} {
		r.says(command+"\r\n", "-NOTALLOWED ")
	}
	if marks, err := g.store.Marks(t.Context()); err != nil || len(marks) != 1 || marks[0].Token != 5 {
		t.Errorf("marks %+v, %v", marks, err)
	}
	for name, is := range map[string]string{
		"XFLUSH": "FLUSHALL under the name XFLUSH", "inspect|sleep": "DEBUG under the name INSPECT",
	} {
		trusting := Settings{TrustedCommands: []string{name}}
		trusting.Upstream = settings.URL("redis://" + server.Addr())
		if _, err := trusting.Install(t.Context()); err == nil || !strings.Contains(err.Error(), is) {
			t.Errorf("an operator trusts %s: %v", name, err)
		}
	}
}
