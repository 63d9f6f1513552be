package redismarks_test

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// crowd connects clients until the server takes no more, and returns how to end them.
func (b *bench) crowd(t *testing.T) (leave func()) {
	t.Helper()
	var all []net.Conn
	leave = func() {
		for _, c := range all {
			_ = c.Close()
		}
	}
	t.Cleanup(leave)
	for {
		c, err := net.Dial("tcp", b.server.Addr())
		must.Succeed(t, err)
		all = append(all, c)
		_, _ = c.Write([]byte("PING\r\n"))
		answer, _ := bufio.NewReader(c).ReadString('\n')
		if !strings.HasPrefix(answer, "+PONG") {
			return leave
		}
	}
}

func TestTheControlConnectionsAreThereWhileTheServerIsFull(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--maxclients", "16"}})
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	b := openWith(t, server, redismarks.Options{Reserved: true})
	b.awaitClients(t, 4+1) // and the test's own
	leave := b.crowd(t)
	must.Report(t, b.store.PingAll(t.Context()))
	if err := b.store.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "maxclients") {
		t.Errorf("the server is full, and the store is ready: %v", err)
	}
	leave()
	b.awaitClients(t, 4+1)
	must.Succeed(t, b.store.Probe(t.Context()))
}

// awaitClients waits until so many are connected.
func (b *bench) awaitClients(t *testing.T, want int) {
	t.Helper()
	var n int
	if !poll.Until(patience, func() bool {
		n = strings.Count(b.admin.ClientList(t.Context()).Val(), "\n")
		return n == want
	}) {
		t.Fatalf("%d clients, want %d", n, want)
	}
}

// What an admission needs is looked at, not only that the marks can be read.
func TestAStoreThatCannotAdmitIsNotReady(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string][]any{
		"a right to end sessions": {"ACL", "SETUSER", "default", "-client|kill"},
		"a right to write marks":  {"ACL", "SETUSER", "default", "-hset"},
		"too few replicas":        {"CONFIG", "SET", "min-replicas-to-write", "1"},
		"a replica":               {"REPLICAOF", "127.0.0.1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
			s := openWith(t, b.server, redismarks.Options{})
			b.do(t, spoil...)
			if err := s.store.Probe(t.Context()); err == nil {
				t.Error("the store is ready")
			}
		})
	}
}
