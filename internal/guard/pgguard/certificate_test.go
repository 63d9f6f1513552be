package pgguard

import (
	"bufio"
	"crypto/tls"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// certified starts a guard whose clients need a certificate that names their role.
func (e *encrypted) certified() *guarded {
	option := with(e.t, tlsconfig.Files{ClientCA: e.authority.File}, e.authority.Issue("the guard"))
	option.VerifyName = true
	return e.guard("sslmode=disable", option)
}

// A startup packet need not name a role. The server's own refusal would have another text.
func TestACertificateWithoutACommonNameIsRefused(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	g := e.certified()
	for _, test := range []struct{ name, user, want string }{
		{"", "", "no common name"}, {"", "app", "no common name"}, {"app", "", `not one of role ""`},
	} {
		own := e.authority.Issue(test.name)
		pair, err := tls.X509KeyPair(own.Cert, own.Key)
		if err != nil {
			t.Fatal(err)
		}
		w := dialWire(t, g.Addr)
		secured := tls.Client(w.Conn, &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{"postgresql"},
			Certificates: []tls.Certificate{pair},
		})
		w.Conn, w.r = secured, bufio.NewReader(secured)
		packet := startupOf(0, "database", e.database, "options", "-c fence.orders=5")
		if test.user != "" {
			packet = startupOf(0, "user", test.user, "database", e.database, "options", "-c fence.orders=5")
		}
		w.send(packet)
		if m := w.next(); m.kind != 'E' || !strings.Contains(string(m.body), test.want) {
			t.Errorf("certificate of %q, role %q: %q", test.name, test.user, m.body)
		}
	}
}

// The server cuts the name of a role off after 63 bytes.
func TestACertificateOfALongNameIsNotOneOfTheRoleThatItBeginsWith(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	g := e.certified()
	role := strings.Repeat("r", wire.MaxName)
	pgtest.Exec(t, e.pg.URL("postgres", e.database), "create role "+role+" login; grant app to "+role+
		"; grant all on ledger, ledger_n_seq to "+role)
	for _, name := range []string{role, role + "x"} {
		own := e.authority.Issue(name)
		err := g.login(name, "sslmode=require&sslcert="+own.CertFile+"&sslkey="+own.KeyFile)
		if name == role && err != nil {
			t.Error(err)
		}
		if name != role {
			wantCode(t, err, wire.InvalidAuthorization)
		}
	}
}
