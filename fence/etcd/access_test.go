package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// guarded is a cluster with users: root, and app, which may use the keys under /ringfence.
func guarded(t *testing.T) *servers.Etcd {
	t.Helper()
	server := serverstest.Etcd(t, servers.EtcdOptions{Args: []string{"--auth-token-ttl", "1"}})
	admin := adminOf(t, server.Addr())
	ctx := t.Context()
	steps := []func() error{
		func() error { _, err := admin.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.RoleAdd(ctx, "app"); return err },
		func() error {
			_, err := admin.RoleGrantPermission(ctx, "app", "/ringfence/", clientv3.GetPrefixRangeEnd("/ringfence/"),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := admin.UserAdd(ctx, "app", "p@ss/word"); return err },
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

func TestAUserHoldsElectionsForLongerThanItsTokenLasts(t *testing.T) {
	server := guarded(t)
	c := openWith(t, "etcd://app:p%40ss%2Fword@"+server.Addr(), 2*time.Second, nil)
	term := win(t, c, "orders", "a")
	until := time.Now().Add(4 * time.Second) // tokens of users last one second
	eventually(t, "the term is confirmed with a new token", func() bool {
		return term.Deadline().After(until.Add(2 * time.Second))
	})
	if _, leaders, err := c.Leaders(t.Context(), "orders"); err != nil || leaders[0].Token != term.Token() {
		t.Errorf("%v leads, %v", leaders, err)
	}
}

func TestWrongCredentialsAndForeignPrefixesAreRefusedAtOnce(t *testing.T) {
	server := guarded(t)
	for url, want := range map[string]error{
		"etcd://app:wrong@" + server.Addr():                 rpctypes.ErrAuthFailed,
		"etcd://" + server.Addr():                           rpctypes.ErrUserEmpty,
		"etcd://app:p%40ss%2Fword@" + server.Addr() + "/eu": rpctypes.ErrPermissionDenied,
	} {
		start := time.Now()
		c, err := Open(t.Context(), url, Options{SessionTimeout: 30 * time.Second})
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, want) || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %v after %s", url, err, time.Since(start))
		}
		if err != nil && strings.Contains(err.Error(), "p@ss") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestAClientCertificateIsEnoughOverTLS(t *testing.T) {
	dir := t.TempDir()
	ca, cert, key := certificates(t, dir)
	ports := serverstest.FreeAddresses(t, 2)
	server := tlsEtcd(t, ports[0], ports[1], ca, cert, key)
	options := "?sslrootcert=" + ca + "&sslcert=" + cert + "&sslkey=" + key
	c := openWith(t, "etcds://"+server+"/tls"+options, 10*time.Second, nil)
	win(t, c, "orders", "a")
	for what, url := range map[string]string{
		"no client certificate": "etcds://" + server + "/tls?sslrootcert=" + ca,
		"no root":               "etcds://" + server + "/tls",
		"no TLS":                "etcd://" + server + "/tls",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if other, err := Open(ctx, url, Options{}); err == nil {
			other.Close()
			t.Errorf("%s is enough", what)
		}
		cancel()
	}
}

// tlsEtcd starts a member that takes only clients with a certificate.
func tlsEtcd(t *testing.T, client, peer, ca, cert, key string) (addr string) {
	t.Helper()
	p, err := servers.NewProgram(servers.ProgramOptions{Name: "etcd with TLS", Log: filepath.Join(t.TempDir(), "log"),
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
	return client
}

// certificates writes an authority that signs itself, and uses it for server and client.
func certificates(t *testing.T, dir string) (ca, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ringfence"}, IsCA: true, BasicConstraintsValid: true,
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
