package serverstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// Etcd starts a cluster for this test only.
func Etcd(t testing.TB, o servers.EtcdOptions) *servers.Etcd {
	t.Helper()
	return own(t, "etcd", func(ctx context.Context) (*servers.Etcd, error) {
		return servers.StartEtcd(ctx, o)
	})
}

var sharedEtcd = newShared("etcd", func(ctx context.Context) (*servers.Etcd, error) {
	return servers.StartEtcd(ctx, servers.EtcdOptions{})
})

// SharedEtcd returns the test binary's etcd, one member with default options.
func SharedEtcd(t testing.TB) *servers.Etcd { t.Helper(); return sharedEtcd.get(t) }
