package etcdtest

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Connect returns an operator's client of a server without users.
func Connect(t testing.TB, server string) *clientv3.Client {
	t.Helper()
	admin, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(server, ","), Logger: zap.NewNop(), MaxCallSendMsgSize: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	return admin
}

const password = "p@ss/word"

// Login is the user of WithUsers that may use the keys under /ringfence/, as a URL has it.
const Login = "app:p%40ss%2Fword@"

// WithUsers starts a cluster with the users root and app. Tokens of users last one second.
func WithUsers(t testing.TB) *servers.Etcd {
	t.Helper()
	server := serverstest.Etcd(t, servers.EtcdOptions{Args: []string{"--auth-token-ttl", "1"}})
	admin := Connect(t, server.Addr())
	ctx := t.Context()
	const prefix = "/ringfence/"
	steps := []func() error{
		func() error { _, err := admin.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.RoleAdd(ctx, "app"); return err },
		func() error {
			_, err := admin.RoleGrantPermission(ctx, "app", prefix, clientv3.GetPrefixRangeEnd(prefix),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := admin.UserAdd(ctx, "app", password); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "app", "app"); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	}
	for i, do := range steps {
		if err := do(); err != nil && !strings.Contains(err.Error(), "already") {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	return server
}
