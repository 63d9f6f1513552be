package elections

import (
	"context"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func sharedZooKeeper(t testing.TB) string {
	return "zk://" + serverstest.SharedZooKeeper(t).Addr() + serverstest.Folder(t)
}

func ownZooKeeper(t testing.TB) (string, Pausable) {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 1})
	return "zk://" + z.Addr() + serverstest.Folder(t), z
}

func failingZooKeeper(t testing.TB) Failing {
	server := serverstest.SharedZooKeeper(t)
	root := serverstest.Folder(t)
	return Failing{server.Addr(), func(relay string) string {
		return "zk://" + relay + root
	}, func(yes bool) {
		conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.AddAuth("digest", []byte("other:other"))
		acl := zk.WorldACL(zk.PermAll)
		if yes {
			acl = zk.DigestACL(zk.PermAll, "other", "other")
		}
		setACL(conn, root, acl)
	}}
}

// setACL changes the access to a znode and to everything below.
func setACL(conn *zk.Conn, at string, acl []zk.ACL) {
	children, _, _ := conn.Children(at)
	for _, child := range children {
		setACL(conn, path.Join(at, child), acl)
	}
	_, _ = conn.SetACL(at, acl, -1)
}

// restoredZooKeeper is a server alone, whose epoch is always the same.
func restoredZooKeeper(t testing.TB) Restored {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	return restored(z, func(context.Context) error { return z.Backup() })
}

// restoredEnsemble begins a new epoch whenever it starts. The backup is from before the last
// start, so the restored ensemble has the same epoch as the one before, and counts from 0 in it.
func restoredEnsemble(t testing.TB) Restored {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	return restored(z, func(ctx context.Context) error {
		if err := z.Backup(); err != nil {
			return err
		}
		if err := z.Stop(); err != nil {
			return err
		}
		return z.Start(ctx)
	})
}

func restored(z *servers.ZooKeeper, backup func(context.Context) error) Restored {
	return Restored{
		URL: "zk://" + z.Addr() + "/e2e", Backup: backup, Restore: z.Restore,
		Connect: func(t testing.TB) func(context.Context) (fence.Token, error) {
			admin := zookeepertest.Connect(t, z.Addr())
			return func(context.Context) (fence.Token, error) {
				stat, err := admin.Set("/e2e", nil, -1)
				if err != nil {
					return 0, err
				}
				return fence.Token(stat.Mzxid), nil
			}
		},
	}
}
