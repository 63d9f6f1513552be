package etcdtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Connect returns an operator's client of a server without users.
func Connect(t testing.TB, server string) *clientv3.Client {
	t.Helper()
	admin, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(server, ","), Logger: zap.NewNop(), MaxCallSendMsgSize: 1 << 30,
	})
	must.Succeed(t, err)
	t.Cleanup(func() { admin.Close() })
	return admin
}

const password = "p@ss/word"

// Login is the user of WithUsers that may use the keys under /ringfence/, as a URL has it.
const Login = "app:p%40ss%2Fword@"

// ShortTokens are arguments of WithUsers: tokens last one second.
var ShortTokens = []string{"--auth-token-ttl", "1"}

// SignedTokens are arguments of WithUsers: tokens are JWTs. etcd refuses one that is older than the
// last change of a user or a role.
func SignedTokens(t testing.TB) []string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.Succeed(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
			0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must.Succeed(t, err)
	return []string{"--auth-token", "jwt,sign-method=RS256,ttl=10m" +
		",pub-key=" + write("public", "PUBLIC KEY", public) +
		",priv-key=" + write("private", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))}
}

// Root is a new client of the user root.
func Root(t testing.TB, server string) *clientv3.Client {
	t.Helper()
	root, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(server, ","), Username: "root", Password: "secret", Logger: zap.NewNop(),
	})
	must.Succeed(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// WithUsers starts a cluster with the users root and app.
func WithUsers(t testing.TB, args ...string) *servers.Etcd {
	t.Helper()
	server := serverstest.Etcd(t, servers.EtcdOptions{Args: args})
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
