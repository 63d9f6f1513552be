package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/electiontest"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
)

func TestAUserHoldsElectionsForLongerThanItsTokenLasts(t *testing.T) {
	t.Parallel()
	server := etcdtest.WithUsers(t, etcdtest.ShortTokens...)
	const session = 6 * time.Second
	c := openWith(t, "etcd://"+etcdtest.Login+server.Addr(), session, nil)
	term := electiontest.Win(t, c, "orders", "a")
	until := time.Now().Add(4 * time.Second) // tokens of users last one second
	electiontest.Eventually(t, "the term is confirmed with a new token", func() bool {
		return term.Deadline().After(until.Add(session))
	})
	if _, leaders, err := c.Leaders(t.Context(), "orders"); err != nil ||
		leaders[0].Token != term.Token() {
		t.Errorf("%v leads, %v", leaders, err)
	}
}

// A guard that nobody asks for a while is idle.
func TestAUserWhoseTokenHasExpiredLogsInAgain(t *testing.T) {
	t.Parallel()
	server := etcdtest.WithUsers(t, etcdtest.ShortTokens...)
	url := "etcd://" + etcdtest.Login + server.Addr()
	c, idle := openWith(t, url, time.Minute, nil), openWith(t, url, time.Minute, nil)
	term := electiontest.Win(t, c, "orders", "a")
	until := time.Now().Add(3 * time.Second) // tokens of users last one second
	electiontest.Eventually(t, "the token has expired", func() bool { return time.Now().After(until) })
	for name, each := range map[string]*Coordinator{"the leader": c, "an observer": idle} {
		start := time.Now()
		_, leaders, err := each.Leaders(t.Context(), "orders")
		if err != nil || leaders[0].Token != term.Token() || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %v leads, %v after %s", name, leaders, err, time.Since(start))
		}
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWrongCredentialsAndForeignPrefixesAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	server := etcdtest.WithUsers(t, etcdtest.ShortTokens...)
	for url, want := range map[string]error{
		"etcd://app:wrong@" + server.Addr():                rpctypes.ErrAuthFailed,
		"etcd://" + server.Addr():                          rpctypes.ErrUserEmpty,
		"etcd://" + etcdtest.Login + server.Addr() + "/eu": rpctypes.ErrPermissionDenied,
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
	t.Parallel()
	server := etcdtest.WithTLS(t)
	c := openWith(t, "etcds://"+server.Addr+"/tls"+server.All, 10*time.Second, nil)
	electiontest.Win(t, c, "orders", "a")
	for what, url := range map[string]string{
		"no client certificate": "etcds://" + server.Addr + "/tls" + server.Root,
		"no root":               "etcds://" + server.Addr + "/tls",
		"no TLS":                "etcd://" + server.Addr + "/tls",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if other, err := Open(ctx, url, Options{}); err == nil {
			other.Close()
			t.Errorf("%s is enough", what)
		}
		cancel()
	}
}
