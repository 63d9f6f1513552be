package elections

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func sharedEtcd(t testing.TB) string {
	return "etcd://" + serverstest.SharedEtcd(t).Addr() + serverstest.Folder(t)
}

func ownEtcd(t testing.TB) (string, Pausable) {
	etcd := serverstest.Etcd(t, servers.EtcdOptions{})
	return "etcd://" + etcd.Addr() + serverstest.Folder(t), etcd
}

func failingEtcd(t testing.TB) Failing {
	server := etcdtest.WithUsers(t)
	return Failing{server.Addr(), func(relay string) string {
		return "etcd://" + etcdtest.Login + relay
	}, func(yes bool) {
		root := etcdtest.Root(t, server.Addr())
		if yes {
			_, _ = root.UserRevokeRole(t.Context(), "app", "app") // once for all programs
		} else {
			_, _ = root.UserGrantRole(t.Context(), "app", "app")
		}
	}}
}

// restoredEtcd is restored from a snapshot, with the same name and URLs.
func restoredEtcd(t testing.TB) Restored {
	e := serverstest.Etcd(t, servers.EtcdOptions{})
	return Restored{
		URL: "etcd://" + e.Addr() + "/e2e", Backup: e.Backup, Restore: e.Restore,
		Connect: func(t testing.TB) func(context.Context) (fence.Token, error) {
			admin := etcdtest.Connect(t, e.Addr())
			return func(ctx context.Context) (fence.Token, error) {
				put, err := admin.Put(ctx, "elsewhere", "")
				if err != nil {
					return 0, err
				}
				return fence.Token(put.Header.Revision), nil
			}
		},
	}
}
