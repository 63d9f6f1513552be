package clustertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
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
	ca, cert, key := certificates(t, t.TempDir())
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := "?sslrootcert=" + ca
	return TLS{Addr: client, Root: root, All: root + "&sslcert=" + cert + "&sslkey=" + key}
}

// certificates writes an authority that signs itself, and uses it for server and client.
func certificates(t testing.TB, dir string) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ringfence"},
		IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, cert, key
}
