package tlsconfig

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestANewVersionOfTheFilesIsUsedOnceItIsGood(t *testing.T) {
	authority := serverstest.NewAuthority(t)
	first, second := authority.Issue("first"), authority.Issue("second")
	synctest.Test(t, func(t *testing.T) {
		var warnings []error
		s, err := NewServer(Files{Cert: first.CertFile, Key: first.KeyFile}, func(err error) {
			warnings = append(warnings, err)
		})
		if err != nil {
			t.Fatal(err)
		}
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
		if err := os.Remove(first.CertFile); err != nil {
			t.Fatal(err)
		}
		if got := name(); got != "second" || len(warnings) != 2 {
			t.Errorf("removed: shows %q, warned of %v", got, warnings)
		}
	})
}

func TestOtherFilesAreUsedAtOnceIfTheyAreGood(t *testing.T) {
	authority := serverstest.NewAuthority(t)
	first, second := authority.Issue("first"), authority.Issue("second")
	s, err := NewServer(Files{Cert: first.CertFile, Key: first.KeyFile}, nil)
	if err != nil {
		t.Fatal(err)
	}
	name := func() string { return s.current().Certificates[0].Leaf.Subject.CommonName }
	if err := s.Reload(Files{Cert: second.CertFile, Key: first.KeyFile}); err == nil || name() != "first" {
		t.Errorf("the key of another: %v, shows %q", err, name())
	}
	if err := s.Reload(Files{Cert: second.CertFile, Key: second.KeyFile}); err != nil || name() != "second" {
		t.Errorf("%v, shows %q", err, name())
	}
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
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
		if _, err := NewServer(f, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s, err := NewServer(Files{Cert: good.CertFile, Key: good.KeyFile, ClientCA: authority.File}, nil)
	if err != nil || s.current().ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("%+v, %v", s, err)
	}
}
