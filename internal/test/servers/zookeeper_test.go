package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/internal/test/must"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

// zkClient opens a session at the servers.
func zkClient(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect(strings.Split(addr, ","), 10*time.Second, zk.WithLogger(silent{}))
	must.Succeed(t, err)
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			return c
		}
	}
	t.Fatal("no session")
	return nil
}

func TestZooKeeperLife(t *testing.T) {
	z, err := StartZooKeeper(limited(t), ZooKeeperOptions{})
	must.Succeed(t, err)
	closed(t, z)
	create(t, z.Addr(), "/kept")

	must.Succeed(t, z.Kill())
	must.Succeed(t, z.Start(limited(t)))
	if !exists(t, z.Addr(), "/kept") {
		t.Error("a node is lost after Kill and Start")
	}

	must.Succeed(t, z.Pause())
	short, cancel := context.WithTimeout(limited(t), 50*time.Millisecond)
	defer cancel()
	if _, err := fourLetters(short, z.Addr(), "ruok"); err == nil {
		t.Error("a paused server answered")
	}
	must.Succeed(t, z.Resume())

	must.Succeed(t, z.Backup())
	create(t, z.Addr(), "/later")
	must.Succeed(t, z.Restore(limited(t)))
	if !exists(t, z.Addr(), "/kept") || exists(t, z.Addr(), "/later") {
		t.Error("Restore did not bring back what the backup had")
	}

	addr := z.Addr()
	must.Succeed(t, z.Wipe(limited(t)))
	if exists(t, z.Addr(), "/kept") || z.Addr() != addr {
		t.Error("Wipe left data or changed the address")
	}

	family := z.Nodes[0].live().family()
	must.Succeed(t, z.Close())
	must.Succeed(t, z.Close())
	if len(family) == 0 || !allGone(family) || !gone(z.dir) {
		t.Error("something is left")
	}
}

func TestEnsembleOfThreeServesWithoutOne(t *testing.T) {
	z, err := StartZooKeeper(limited(t), ZooKeeperOptions{Nodes: 3})
	must.Succeed(t, err)
	closed(t, z)
	create(t, z.Addr(), "/kept")
	must.Succeed(t, z.Nodes[2].Kill())
	if !exists(t, z.Nodes[0].Addr()+","+z.Nodes[1].Addr(), "/kept") {
		t.Error("two of three do not serve")
	}
	must.Succeed(t, z.Nodes[1].Stop())

	short, cancel := context.WithTimeout(limited(t), time.Second)
	defer cancel()
	if err := z.Nodes[0].Start(short); !errors.Is(err, ErrRunning) {
		t.Error("Start of the running node:", err)
	}
	must.Succeed(t, z.Nodes[0].Kill())
	if err := z.Nodes[0].Start(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("one of three serves:", err)
	}
	must.Succeed(t, z.Start(limited(t)))
	for _, n := range z.Nodes {
		if !exists(t, n.Addr(), "/kept") {
			t.Error("not on", n.Addr())
		}
	}
}

func create(t *testing.T, addr, path string) {
	t.Helper()
	patiently(t, addr, func(c *zk.Conn) error {
		_, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil // an earlier attempt created it, and its answer was lost
		}
		return err
	})
}

func exists(t *testing.T, addr, path string) (found bool) {
	t.Helper()
	patiently(t, addr, func(c *zk.Conn) error {
		_, err := c.Sync("/")
		if err == nil {
			found, _, err = c.Exists(path)
		}
		return err
	})
	return found
}

// patiently retries after the connection was lost: an ensemble on a busy machine may elect another
// leader.
func patiently(t *testing.T, addr string, ask func(*zk.Conn) error) {
	t.Helper()
	eventually(t, "answer from "+addr, func() bool {
		c := zkClient(t, addr)
		defer c.Close()
		err := ask(c)
		if errors.Is(err, zk.ErrConnectionClosed) {
			return false
		}
		must.Succeed(t, err)
		return true
	})
}
