package tlsconfig

import (
	"crypto/tls"
	"net/url"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// shake makes a handshake with a server that has this certificate.
func shake(t *testing.T, p serverstest.Pair, client *tls.Config) error {
	t.Helper()
	s, err := NewServer(Files{Cert: p.CertFile, Key: p.KeyFile}, Reports{})
	must.Succeed(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.Config())
	must.Succeed(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake() // what the client says counts
			_ = c.Close()
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		err = c.Close()
	}
	_ = l.Close()
	<-done
	return err
}

func TestAServersCertificateIsCheckedAsTheModeSays(t *testing.T) {
	authority, stranger := serverstest.NewAuthority(t), serverstest.NewAuthority(t)
	server := authority.Issue("server")
	for _, test := range []struct {
		mode, root, host string
		good             bool
	}{
		{"", authority.File, "localhost", true},
		{"", authority.File, "elsewhere", false},
		{"", stranger.File, "localhost", false},
		{"", "", "localhost", false}, // not signed by one of the system's authorities
		{"verify-full", authority.File, "127.0.0.1", true},
		{"verify-full", authority.File, "elsewhere", false},
		{"verify-ca", authority.File, "elsewhere", true},
		{"verify-ca", stranger.File, "localhost", false},
		{"verify-ca", "", "localhost", false},
		{"require", "", "elsewhere", true},
		{"require", authority.File, "elsewhere", true},
		{"require", stranger.File, "localhost", false},
	} {
		options := url.Values{}
		for name, value := range map[string]string{"sslmode": test.mode, "sslrootcert": test.root} {
			if value != "" {
				options.Set(name, value)
			}
		}
		c, err := Client("test", options)
		must.Succeed(t, err)
		c.ServerName = test.host
		if err := shake(t, server, c); test.good != (err == nil) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	p := serverstest.NewAuthority(t).Issue("a")
	for query, want := range map[string]string{
		"sslmode=disable":             "sslmode",
		"sslcert=" + p.CertFile:       "both",
		"sslkey=" + p.KeyFile:         "both",
		"sslrootcert=/nowhere":        "sslrootcert",
		"sslrootcert=" + p.KeyFile:    "no certificate",
		"sslcert=/nowhere&sslkey=/no": "sslcert, sslkey",
		"timeout=5":                   "timeout",
	} {
		options, _ := url.ParseQuery(query)
		if _, err := Client("test", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}
