package zookeeper

import (
	"context"
	"errors"
	"os"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestZooKeeperKeepsTheContract(t *testing.T) {
	const timeout = 10 * time.Second // so that a busy machine does not expire what nobody cut
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := plainConn(t, ensemble)
	var mu sync.Mutex
	relays := map[fence.Coordinator]*relay{}
	of := func(c fence.Coordinator) *relay { mu.Lock(); defer mu.Unlock(); return relays[c] }
	fencetest.Run(t, fencetest.Harness{
		Open: func(t testing.TB) fence.Coordinator {
			r := newRelay(t, ensemble)
			c := openFor(t, "zk://"+r.addr()+"/contract", timeout)
			mu.Lock()
			defer mu.Unlock()
			relays[c] = r
			return c
		},
		SessionTimeout: timeout,
		Cut:            func(_ testing.TB, c fence.Coordinator) { of(c).hold() },
		Heal:           func(_ testing.TB, c fence.Coordinator) { of(c).pass() },
		Expire:         func(_ testing.TB, c fence.Coordinator) { of(c).expireSessions() },
		LoseReply:      func(_ testing.TB, c fence.Coordinator) { of(c).loseNextEnrolment() },
		Delete: func(t testing.TB, r fence.Resource, token fence.Token) {
			deleteCandidate(t, admin, "/contract/elections/"+string(r), token)
		},
		Alone: func(t testing.TB) (c, operator fence.Coordinator) {
			url := "zk://" + ensemble + freshRoot()
			return openFor(t, url, timeout), openFor(t, url, timeout)
		},
	})
}

// openFor opens a coordinator with a session timeout and closes it with the test. A short timeout may not be enough for a
// busy ensemble to answer within it, so it tries again.
func openFor(t testing.TB, url string, timeout time.Duration) (c *Coordinator) {
	t.Helper()
	eventually(t, "the coordinator is open", func() bool {
		var err error
		if c, err = Open(t.Context(), url, Options{SessionTimeout: timeout}); err != nil && !errors.Is(err, ErrUnreachable) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// plainConn is the library, without any of our code.
func plainConn(t *testing.T, servers string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(splitHosts(servers), 10*time.Second, zk.WithLogger(quietly{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // until its loop has ended
		}
	})
	eventually(t, "the library is connected", func() bool { // all its goroutines run from here on
		_, err := conn.Sync("/")
		return err == nil
	})
	return conn
}

type quietly struct{}

func (quietly) Printf(string, ...any) {}

func deleteCandidate(t testing.TB, conn *zk.Conn, dir string, token fence.Token) {
	t.Helper()
	names, _, err := conn.Children(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, stat, err := conn.Exists(path.Join(dir, name)); err == nil && stat.Czxid == int64(token) {
			if err := conn.Delete(path.Join(dir, name), -1); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no candidate %v in %s", token, dir)
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	within(t, 30*time.Second, what, holds)
}

func within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come to hold that %s", what)
		}
	}
}

// win campaigns with a limit.
func win(t *testing.T, c *Coordinator, r fence.Resource, holder string) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	term, err := c.Campaign(ctx, r, holder)
	if err != nil {
		t.Fatal(err)
	}
	return term
}
