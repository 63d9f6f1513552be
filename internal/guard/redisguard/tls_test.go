package redisguard

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// encrypted is a server that speaks TLS on a port of its own.
type encrypted struct {
	authority *serverstest.Authority
	server    *servers.Redis
	address   string // with TLS
}

// encryptedRedis starts a server with TLS. clients says whether they need a certificate: no, yes or
// optional.
func encryptedRedis(t *testing.T, clients string) *encrypted {
	t.Helper()
	e := &encrypted{
		authority: serverstest.NewAuthority(t), address: serverstest.FreeAddresses(t, 1)[0],
	}
	own := e.authority.Issue("the server")
	_, port, _ := net.SplitHostPort(e.address)
	e.server = serverstest.Redis(t, servers.RedisOptions{Args: []string{
		"--tls-port", port, "--tls-cert-file", own.CertFile, "--tls-key-file", own.KeyFile,
		"--tls-ca-cert-file", e.authority.File, "--tls-auth-clients", clients,
	}})
	return e
}

// with is what a guard shows to clients.
func (e *encrypted) with(t *testing.T, f tlsconfig.Files) guard.TLS {
	t.Helper()
	p := e.authority.Issue("the guard")
	f.Cert, f.Key = p.CertFile, p.KeyFile
	s, err := tlsconfig.NewServer(f, tlsconfig.Reports{Failed: func(err error) { t.Log(err) }})
	must.Succeed(t, err)
	return guard.TLS{Server: s}
}

// over makes a client that uses TLS, under a token, as a user unless that is empty.
func (g *guarded) over(config *tls.Config, user string, token int) *driver.Client {
	return driverTo(g.t, g.Addr, func(o *driver.Options) {
		o.TLSConfig = config
		if o.Username = user; user != "" {
			o.Password = "secret"
		}
		o.OnConnect = func(ctx context.Context, c *driver.Conn) error {
			return c.Do(ctx, "FENCE", "orders", token).Err()
		}
	})
}

// client is the configuration of a client with this certificate, or with none.
func (e *encrypted) client(t *testing.T, own *serverstest.Pair) *tls.Config {
	t.Helper()
	options := map[string][]string{"sslrootcert": {e.authority.File}}
	if own != nil {
		options["sslcert"], options["sslkey"] = []string{own.CertFile}, []string{own.KeyFile}
	}
	c, err := tlsconfig.Client("test", options)
	must.Succeed(t, err)
	c.ServerName = "localhost"
	return c
}

func TestASessionInTLSIsFencedAsAnyOther(t *testing.T) {
	t.Parallel()
	e := encryptedRedis(t, "yes")
	own := e.authority.Issue("the guard's own")
	g := before(t, e.server, setup{
		url: fmt.Sprintf("rediss://%s?sslrootcert=%s&sslcert=%s&sslkey=%s", e.address,
			e.authority.File, own.CertFile, own.KeyFile),
		Options: Options{TLS: e.with(t, tlsconfig.Files{})},
	})
	old := g.over(e.client(t, nil), "", 5)
	big := strings.Repeat("x", 1<<20)
	must.Succeed(t, old.Set(t.Context(), "k", big, 0).Err())
	if got, err := old.Get(t.Context(), "k").Result(); err != nil || got != big {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	blocked := make(chan error, 1)
	go func() { blocked <- old.BLPop(context.Background(), 0, "list").Err() }()
	g.blocked("in BLPOP")
	plain := g.leader(6) // a client without TLS, which is not required
	must.Succeed(t, plain.Set(t.Context(), "k", "6", 0).Err())
	if err := <-blocked; err == nil || !strings.HasPrefix(err.Error(), "STALETOKEN") {
		t.Errorf("the blocked command ended with %v", err)
	}
	again := g.over(e.client(t, nil), "", 5)
	if err := again.Set(t.Context(), "k", "5", 0).Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "STALETOKEN") {
		t.Errorf("a write under the old token: %v", err)
	}
}

func TestAGuardRequiresTLS(t *testing.T) {
	t.Parallel()
	e := encryptedRedis(t, "no")
	option := e.with(t, tlsconfig.Files{})
	option.Require = true
	g := before(t, e.server, setup{Options: Options{TLS: option}})
	err := g.leader(5).Set(t.Context(), "k", "5", 0).Err()
	if err == nil || !strings.Contains(err.Error(), "TLS is required") {
		t.Errorf("without TLS: %v", err)
	}
	if err := g.over(e.client(t, nil), "", 5).Set(t.Context(), "k", "5", 0).Err(); err != nil {
		t.Errorf("with TLS: %v", err)
	}
}

func TestACertificateOfTheClientIsChecked(t *testing.T) {
	t.Parallel()
	e := encryptedRedis(t, "no")
	app, stranger := e.authority.Issue("app"), serverstest.NewAuthority(t).Issue("app")
	for _, user := range []string{"app", "other"} {
		if err := driverTo(t, e.server.Addr(), nil).Do(t.Context(), "ACL", "SETUSER", user, "on",
			">secret", "~*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name                              string
		files                             tlsconfig.Files
		verifyName                        bool
		none, nobody, other, strange, app bool // which logins work
	}{
		{"optional", tlsconfig.Files{ClientCertOptional: true}, false, true, true, true, false, true},
		{"verify-ca", tlsconfig.Files{}, false, false, true, true, false, true},
		{"verify-full", tlsconfig.Files{}, true, false, false, false, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.files.ClientCA = e.authority.File
			option := e.with(t, test.files)
			option.VerifyName = test.verifyName
			g := before(t, e.server, setup{Options: Options{TLS: option}})
			for _, login := range []struct {
				what, user string
				cert       *serverstest.Pair
				works      bool
			}{
				{"no certificate", "app", nil, test.none},
				{"app's certificate", "app", &app, test.app},
				{"app's certificate without a login", "", &app, test.nobody},
				{"app's certificate for another user", "other", &app, test.other},
				{"a strange authority", "app", &stranger, test.strange},
			} {
				c := g.over(e.client(t, login.cert), login.user, 5)
				if err := c.Set(t.Context(), "k", "5", 0).Err(); login.works != (err == nil) {
					t.Errorf("%s: %v", login.what, err)
				}
			}
			c := g.over(e.client(t, &app), "app", 5).Conn()
			defer c.Close()
			for _, change := range [][]any{{"AUTH", "other", "secret"}, {"RESET"},
				{"HELLO", "3", "AUTH", "other", "secret"}} {
				err := c.Do(t.Context(), change...).Err()
				if refused := err != nil &&
					strings.HasPrefix(err.Error(), "NOTALLOWED"); refused != test.verifyName {
					t.Errorf("%v in a session: %v", change, err)
				}
				if !test.verifyName { // the session may have lost its rights
					break
				}
			}
		})
	}
}
