package etcdtest

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// TLS is a member that takes only clients with a certificate.
type TLS struct {
	Addr string
	Root string // the option of a URL that names the authority
	All  string // the options of a URL that are enough
}

// WithTLS starts a member that takes only clients with a certificate.
func WithTLS(t testing.TB) TLS {
	t.Helper()
	authority := serverstest.NewAuthority(t)
	ca, pair := authority.File, authority.Issue("ringfence")
	cert, key := pair.CertFile, pair.KeyFile
	at := serverstest.FreeAddresses(t, 2)
	client, peer := at[0], at[1]
	p, err := servers.NewProgram(servers.ProgramOptions{
		Name: "etcd with TLS", Log: filepath.Join(t.TempDir(), "log"),
		Command: []string{"etcd", "--data-dir", t.TempDir(),
			"--listen-client-urls", "https://" + client, "--advertise-client-urls", "https://" + client,
			"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer,
			"--initial-cluster", "default=http://" + peer, "--client-cert-auth", "--trusted-ca-file", ca,
			"--cert-file", cert, "--key-file", key},
		Ready: func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", client)
			if err != nil {
				return err
			}
			return c.Close()
		},
	})
	must.Succeed(t, err)
	t.Cleanup(func() { p.Close() })
	must.Succeed(t, p.Start(t.Context()))
	root := "?sslrootcert=" + ca
	return TLS{Addr: client, Root: root, All: root + "&sslcert=" + cert + "&sslkey=" + key}
}
