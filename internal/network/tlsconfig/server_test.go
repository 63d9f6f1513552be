package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestANewVersionOfTheFilesIsUsedOnceItIsGood(t *testing.T) {
	authority := serverstest.NewAuthority(t)
	first, second := authority.Issue("first"), authority.Issue("second")
	synctest.Test(t, func(t *testing.T) {
		var warnings []error
		var used []string
		s, err := NewServer(Files{Cert: first.CertFile, Key: first.KeyFile}, Reports{
			Failed: func(err error) { warnings = append(warnings, err) },
			Used:   func(c *x509.Certificate) { used = append(used, c.Subject.CommonName) },
		})
		must.Succeed(t, err)
		name := func() string {
			time.Sleep(lookEvery)
			return s.current().Certificates[0].Leaf.Subject.CommonName
		}
		if got := name(); got != "first" {
			t.Errorf("shows %q", got)
		}
		write(t, first.CertFile, second.Cert) // and its key comes a moment later
		if got := name(); got != "first" || len(warnings) != 1 {
			t.Errorf("half replaced: shows %q, warned of %v", got, warnings)
		}
		if name(); len(warnings) != 1 {
			t.Errorf("warned again: %v", warnings)
		}
		write(t, first.KeyFile, second.Key)
		if got := name(); got != "second" || len(warnings) != 1 {
			t.Errorf("replaced: shows %q, warned of %v", got, warnings)
		}
		must.Succeed(t, os.Remove(first.CertFile))
		if got := name(); got != "second" || len(warnings) != 2 {
			t.Errorf("removed: shows %q, warned of %v", got, warnings)
		}
		if !slices.Equal(used, []string{"first", "second"}) {
			t.Errorf("reported %v", used)
		}
	})
}

func TestOtherFilesAreUsedAtOnceIfTheyAreGood(t *testing.T) {
	authority := serverstest.NewAuthority(t)
	first, second := authority.Issue("first"), authority.Issue("second")
	var used []string
	s, err := NewServer(Files{Cert: first.CertFile, Key: first.KeyFile}, Reports{
		Used: func(c *x509.Certificate) { used = append(used, c.Subject.CommonName) },
	})
	must.Succeed(t, err)
	name := func() string { return s.Certificate().Subject.CommonName }
	if _, err := s.Prepare(Files{
		Cert: second.CertFile, Key: first.KeyFile,
	}); err == nil || name() != "first" {
		t.Errorf("the key of another: %v, shows %q", err, name())
	}
	for range 2 { // the second time nothing is new
		use, err := s.Prepare(Files{Cert: second.CertFile, Key: second.KeyFile})
		must.Succeed(t, err)
		if len(used) == 1 && name() != "first" {
			t.Errorf("prepared, and shows %q", name())
		}
		if use(); name() != "second" {
			t.Errorf("shows %q", name())
		}
	}
	if !slices.Equal(used, []string{"first", "second"}) {
		t.Errorf("reported %v", used)
	}
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(file, content, 0o600))
}

func TestFilesThatCannotBeUsedAreAnError(t *testing.T) {
	authority := serverstest.NewAuthority(t)
	good, other := authority.Issue("a"), authority.Issue("b")
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, nil)
	for name, f := range map[string]Files{
		"no file":            {Cert: "/nowhere", Key: good.KeyFile},
		"an empty file":      {Cert: empty, Key: good.KeyFile},
		"the key of another": {Cert: good.CertFile, Key: other.KeyFile},
		"no authority":       {Cert: good.CertFile, Key: good.KeyFile, ClientCA: empty},
	} {
		if _, err := NewServer(f, Reports{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s, err := NewServer(Files{
		Cert: good.CertFile, Key: good.KeyFile, ClientCA: authority.File,
	}, Reports{})
	if err != nil || s.current().ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("%+v, %v", s, err)
	}
}
