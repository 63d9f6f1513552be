package serverstest

import (
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// Authority signs certificates for one test.
type Authority struct {
	File string // its own certificate

	t     testing.TB
	signs *servers.Authority
}

// Pair is a certificate and its key.
type Pair = servers.Pair

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a, err := servers.NewAuthority(t.TempDir())
	must.Succeed(t, err)
	return &Authority{a.File, t, a}
}

// Issue makes a certificate with this common name, for servers on this machine and for clients.
func (a *Authority) Issue(name string) Pair {
	a.t.Helper()
	p, err := a.signs.Issue(name)
	must.Succeed(a.t, err)
	return p
}
