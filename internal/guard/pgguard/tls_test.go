package pgguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// encrypted is a server that speaks TLS, with what its clients need.
type encrypted struct {
	t         *testing.T
	authority *serverstest.Authority
	pg        *servers.Postgres
	own       serverstest.Pair // the server's certificate
	database  string
}

// encryptedPostgres starts a server with TLS. The role salted logs in with SCRAM, certified needs a
// certificate of the authority, too.
func encryptedPostgres(t *testing.T) *encrypted {
	t.Helper()
	e := &encrypted{t: t, authority: serverstest.NewAuthority(t), database: "postgres"}
	e.own = e.authority.Issue("the server")
	authority, err := os.ReadFile(e.authority.File)
	must.Succeed(t, err)
	e.pg = serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"ssl": "on", "ssl_ca_file": "ca.crt", "log_connections": "on"},
		Files: map[string][]byte{
			"server.crt": e.own.Cert, "server.key": e.own.Key, "ca.crt": authority,
		},
		HBA: `local all all trust
hostssl all certified 127.0.0.1/32 trust clientcert=verify-ca
host all certified 127.0.0.1/32 reject
host all postgres,guard_role,+app 127.0.0.1/32 trust
host all salted 127.0.0.1/32 scram-sha-256
`,
	})
	prepared(t, e.pg, e.database)
	pgtest.Exec(t, e.pg.URL("postgres", e.database), `create role salted login password 'secret'; create role certified login;
	    grant all on ledger, ledger_n_seq to public; grant guard_role to certified`)
	return e
}

// control is a URL of the guard's own connections with these options.
func (e *encrypted) control(options string) string {
	return strings.Replace(e.pg.URL("guard_role", e.database), "sslmode=disable", options, 1)
}

// guard starts a guard that reaches the server as the options say.
func (e *encrypted) guard(options string, t guard.TLS) *guarded {
	return guardBefore(e.t, e.pg, e.database, setup{
		control: e.control(options), Options: Options{TLS: t},
	})
}

// with is what a guard with this certificate shows to clients.
func with(t *testing.T, f tlsconfig.Files, p serverstest.Pair) guard.TLS {
	t.Helper()
	f.Cert, f.Key = p.CertFile, p.KeyFile
	s, err := tlsconfig.NewServer(f, tlsconfig.Reports{Failed: func(err error) { t.Log(err) }})
	must.Succeed(t, err)
	return guard.TLS{Server: s}
}

// login logs in through a guard with these options of the URL, and writes.
func (g *guarded) login(user, options string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.t.Context()), time.Minute)
	defer cancel()
	url := strings.Replace(g.url(user, 5), "sslmode=prefer", options, 1)
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "insert into ledger (token) values (5)")
	return err
}

func TestChannelBindingWithEveryCombinationOfTLS(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	other := e.authority.Issue("the guard")
	for _, test := range []struct {
		name     string
		upstream string // sslmode
		guard    guard.TLS
		client   string // sslmode
		works    string // values of channel_binding
	}{
		{"plain, plain", "disable", guard.TLS{}, "disable", "disable prefer"},
		{"TLS, plain", "disable", with(t, tlsconfig.Files{}, other), "require", "disable prefer"},
		{"plain, TLS", "require", guard.TLS{}, "disable", "disable prefer"},
		{"TLS, TLS", "require", with(t, tlsconfig.Files{}, other), "require", "disable"},
		{"TLS, TLS with the server's certificate", "require", with(t, tlsconfig.Files{}, e.own),
			"require",
			"disable prefer require"},
	} {
		g := e.guard("sslmode="+test.upstream, test.guard)
		for _, binding := range []string{"disable", "prefer", "require"} {
			name := test.name + ", " + binding
			works := strings.Contains(test.works, binding)
			t.Run("pgx: "+name, func(t *testing.T) {
				err := g.login("salted:secret", "sslmode="+test.client+"&channel_binding="+binding)
				switch {
				case works && err != nil:
					t.Error(err)
				case !works && binding == "prefer":
					wantCode(t, err, wire.InvalidAuthorization)
				case !works && err == nil:
					t.Error("logged in")
				}
			})
			t.Run("psql: "+name, func(t *testing.T) {
				cmd := g.command(t, "salted", "psql", "-Atc", "insert into ledger (token) values (5) "+
					"returning token")
				cmd.Env = append(cmd.Env, "PGSSLMODE="+test.client, "PGCHANNELBINDING="+binding)
				out, err := cmd.CombinedOutput()
				switch {
				case works && (err != nil || !strings.HasPrefix(string(out), "5\n")):
					t.Errorf("%v: %s", err, out)
				case !works && binding == "prefer" && !strings.Contains(string(out), "channel_binding=disable"):
					t.Errorf("no hint: %s", out)
				case !works && err == nil:
					t.Errorf("logged in: %s", out)
				}
			})
		}
	}
}

func TestTheServerIsReachedAsTheURLSays(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	own := e.authority.Issue("guard_role")
	stranger := serverstest.NewAuthority(t)
	plain := serverstest.SharedPostgres(t)
	fresh := prepared(t, plain, serverstest.FreshDatabase(t, plain))
	for _, test := range []struct {
		options string
		plain   bool // the server has no TLS
		works   bool
		user    string
	}{
		{"sslmode=disable", false, true, "app"},
		{"sslmode=allow", false, true, "app"},
		{"sslmode=prefer", false, true, "app"},
		{"sslmode=prefer", true, true, "app"},
		{"sslmode=require", false, true, "app"},
		{"sslmode=require", true, false, "app"},
		{"sslmode=verify-ca&sslrootcert=" + e.authority.File, false, true, "app"},
		{"sslmode=verify-full&sslrootcert=" + e.authority.File, false, true, "app"},
		{"sslmode=verify-full&sslrootcert=" + stranger.File, false, false, "app"},
		{"sslmode=require", false, false, "certified"},
		{fmt.Sprintf("sslmode=require&sslcert=%s&sslkey=%s", own.CertFile, own.KeyFile), false, true,
			"certified"},
	} {
		t.Run(test.options+" as "+test.user, func(t *testing.T) {
			g := e.guard(test.options, guard.TLS{})
			if test.plain {
				control := strings.Replace(plain.URL("guard_role", fresh), "sslmode=disable", test.options, 1)
				g = guardBefore(t, plain, fresh, setup{control: control})
			}
			err := g.login(test.user, "sslmode=disable")
			if test.works != (err == nil) {
				t.Errorf("logged in with %v", err)
			}
		})
	}
}

// A server looks at the certificate of each new connection, so an expired one has to be replaced in
// time.
func TestANewCertificateForTheServerIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	stranger := serverstest.NewAuthority(t).Issue("guard_role")
	own := e.authority.Issue("guard_role")
	good := [2][]byte{own.Cert, own.Key}
	if err := stranger.WriteTo(own.CertFile, own.KeyFile); err != nil {
		// one that the server does not know
		t.Fatal(err)
	}
	g := e.guard(fmt.Sprintf("sslmode=require&sslcert=%s&sslkey=%s", own.CertFile, own.KeyFile),
		guard.TLS{})
	if err := g.login("certified", "sslmode=disable"); err == nil {
		t.Fatal("the server does not check certificates")
	}
	own.Cert, own.Key = good[0], good[1]
	must.Succeed(t, own.WriteTo(own.CertFile, own.KeyFile))
	if !poll.Until(time.Minute, func() bool {
		return g.login("certified", "sslmode=disable") == nil
	}) {
		t.Fatal("the guard still shows the first certificate")
	}
}

func TestAClientStartsTLSInEveryWayThatPostgresHas(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	g := e.guard("sslmode=disable", with(t, tlsconfig.Files{}, e.authority.Issue("the guard")))
	root := "&sslrootcert=" + e.authority.File
	for _, options := range []string{
		"sslmode=disable", "sslmode=allow", "sslmode=prefer", "sslmode=require", "sslmode=verify-ca" +
			root,
		"sslmode=verify-full" + root, "sslmode=require&sslnegotiation=direct",
		"sslmode=verify-full&sslnegotiation=direct" + root,
	} {
		if err := g.login("salted:secret", options); err != nil {
			t.Errorf("%s: %v", options, err)
		}
	}
	if err := g.login("salted:secret", "sslmode=verify-full&sslrootcert="+
		serverstest.NewAuthority(t).File); err == nil {
		t.Error("the guard's certificate was not checked")
	}
	// Direct TLS without the name of the protocol could be a connection of another protocol.
	direct, err := tls.Dial("tcp", g.Addr, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		defer direct.Close()
		if _, err = direct.Write(startupOf(0, "user", "app")); err == nil {
			_, err = direct.Read(make([]byte, 1))
		}
	}
	if err == nil {
		t.Error("direct TLS without ALPN was answered")
	}
}

func TestAGuardRequiresTLS(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	option := with(t, tlsconfig.Files{}, e.authority.Issue("the guard"))
	option.Require = true
	g := e.guard("sslmode=disable", option)
	wantCode(t, g.login("app", "sslmode=disable"), wire.InvalidAuthorization)
	must.Report(t, g.login("app", "sslmode=require"))
	if n := g.count("select count(*) from ledger"); n != 1 {
		t.Errorf("%d writes", n)
	}
}

func TestACertificateOfTheClientIsChecked(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	app, stranger := e.authority.Issue("app"), serverstest.NewAuthority(t).Issue("app")
	files := func(p serverstest.Pair) string {
		return "sslmode=require&sslcert=" + p.CertFile + "&sslkey=" + p.KeyFile
	}
	for _, test := range []struct {
		name                         string
		files                        tlsconfig.Files
		verifyName                   bool
		none, plain, strangers, salt bool // which logins work
	}{
		{"optional", tlsconfig.Files{ClientCertOptional: true}, false, true, true, false, true},
		{"verify-ca", tlsconfig.Files{}, false, false, true, false, true},
		{"verify-full", tlsconfig.Files{}, true, false, true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.files.ClientCA = e.authority.File
			option := with(t, test.files, e.authority.Issue("the guard"))
			option.VerifyName = test.verifyName
			g := e.guard("sslmode=disable", option)
			for _, login := range []struct {
				what, user, options string
				works               bool
			}{
				{"no certificate", "app", "sslmode=require", test.none},
				{"app's certificate", "app", files(app), true},
				{"no TLS", "app", "sslmode=disable", test.plain},
				{"a strange authority", "app", files(stranger), test.strangers},
				{"app's certificate for another role", "salted:secret", files(app), test.salt},
			} {
				if err := g.login(login.user, login.options); login.works != (err == nil) {
					t.Errorf("%s: %v", login.what, err)
				}
			}
		})
	}
}

func TestANewCertificateIsUsedWithoutARestart(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	shown := e.authority.Issue("the first")
	g := e.guard("sslmode=disable", with(t, tlsconfig.Files{}, shown))
	name := func() string {
		c, err := pgx.Connect(t.Context(),
			strings.Replace(g.url("app", 5), "sslmode=prefer", "sslmode=require", 1))
		must.Succeed(t, err)
		defer c.Close(context.Background())
		return c.PgConn().Conn().(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "the first" {
		t.Fatalf("the guard shows %q", got)
	}
	must.Succeed(t, e.authority.Issue("the second").WriteTo(shown.CertFile, shown.KeyFile))
	if !poll.Until(time.Minute, func() bool { return name() == "the second" }) {
		t.Fatal("the guard still shows the first certificate")
	}
}

func TestASessionInTLSIsFencedAsAnyOther(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	g := e.guard("sslmode=require", with(t, tlsconfig.Files{}, e.own))
	dial := func(token int) *pgx.Conn {
		url := fmt.Sprintf(
			"postgres://salted:secret@%s/%s?sslmode=require&options=-c%%20fence.orders%%3D%d",
			g.Addr, g.database, token)
		return pgtest.Connect(t, url)
	}
	old := dial(5)
	g.exec(old, "insert into ledger (token, note) select 5, repeat('x', 100000) from "+
		"generate_series(1, 100)")
	var n int
	if err := old.QueryRow(t.Context(), "select sum(length(note)) from ledger").Scan(&n); err != nil ||
		n != 10_000_000 {
		t.Errorf("%d characters, %v", n, err)
	}
	idle := dial(5)
	busy := make(chan error, 1)
	go func() {
		_, err := old.Exec(context.Background(), "select pg_sleep(600)")
		busy <- err
	}()
	g.until(sessionsWhere+"query like 'select pg_sleep%'", 1)
	newer := dial(6)
	g.exec(newer, "insert into ledger (token) values (6)")
	wantCode(t, <-busy, "RF001")
	_, err := idle.Exec(t.Context(), "insert into ledger (token) values (5)")
	if wantCode(t, err, "RF001"); errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if n := g.count("select count(*) from ledger where token = 5"); n != 100 {
		t.Errorf("%d writes under the old token", n)
	}
}
