package ensemble

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestASessionUsesTLS(t *testing.T) {
	authority := serverstest.NewAuthority(t)
	server, client := authority.Issue("server"), authority.Issue("client")
	both := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(both, append(server.Key, server.Cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	address := serverstest.FreeAddresses(t, 1)[0]
	serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Settings: []string{
		"secureClientPort=" + address[len("127.0.0.1:"):], "secureClientPortAddress=127.0.0.1",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + both, "ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + authority.File, "ssl.trustStore.type=PEM", "ssl.clientAuth=need",
	}})
	root := "?sslrootcert=" + authority.File
	own := "&sslcert=" + client.CertFile + "&sslkey=" + client.KeyFile
	for name, test := range map[string]struct {
		url   string
		works bool
	}{
		"with a certificate":    {"zks://" + address + "/test" + root + own, true},
		"without a certificate": {"zks://" + address + "/test" + root, false},
		"of a strange authority": {"zks://" + address + "/test?sslrootcert=" +
			serverstest.NewAuthority(t).File + own, false},
		"without TLS": {"zk://" + address + "/test", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := openClient(t, test.url, 10*time.Second)
			limit := 3 * time.Second // for what must not work
			if test.works {
				limit = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := c.session(ctx)
			if test.works != (err == nil) {
				t.Errorf("the session is %v", err)
			}
		})
	}
}
