package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/cluster/clustertest"
)

// succeed publishes and follows the checkpoints of two leaders.
func succeed(t *testing.T, b *bench) {
	t.Helper()
	j, standby := b.journal(Options{}), b.journal(Options{})
	for n := int64(1); n <= 2; n++ {
		c := b.Lead(orders)
		if _, _, err := j.Take(t.Context(), c, nightly, n-1); err != nil {
			t.Fatal(err)
		}
		cp := version(n, c)
		publish(t, j, c, cp)
		stored(t, standby, cp)
		shown := errors.New("shown")
		err := standby.Follow(t.Context(), nightly, func(got checkpoint.Checkpoint) error {
			if got.Nonce != cp.Nonce {
				t.Errorf("the follower was shown %+v", got)
			}
			return shown
		})
		if !errors.Is(err, shown) {
			t.Errorf("follow returned %v", err)
		}
	}
}

func TestAUserKeepsCheckpointsForLongerThanItsTokenLasts(t *testing.T) {
	server := clustertest.WithUsers(t)
	b := benchAt(t, "etcd://"+clustertest.Login+server.Addr())
	j := b.journal(Options{})
	c := b.Lead(orders)
	n := int64(1)
	publish(t, j, c, version(n, c))
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); { // a token lasts one second
		n++
		publish(t, j, c, version(n, c))
	}
	idle := b.journal(Options{}) // its first token has expired when it is used again
	fresh := b.Lead(orders)
	expired := time.Now().Add(2 * time.Second)
	eventually(t, "the token has expired", func() bool { return time.Now().After(expired) })
	if taken, same, err := idle.Take(t.Context(), fresh, nightly, n); err != nil || !same {
		t.Errorf("took %+v, same is %v, %v", taken, same, err)
	}
}

func TestWrongCredentialsAndForeignPrefixesAreRefusedAtOnce(t *testing.T) {
	server := clustertest.WithUsers(t)
	for url, want := range map[string]error{
		"etcd://app:wrong@" + server.Addr():                      rpctypes.ErrAuthFailed,
		"etcd://" + server.Addr():                                rpctypes.ErrUserEmpty,
		"etcd://" + clustertest.Login + server.Addr() + "/other": rpctypes.ErrPermissionDenied,
	} {
		start := time.Now()
		j, err := Open(t.Context(), url, Options{RequestTimeout: 30 * time.Second})
		if err == nil {
			j.Close()
		}
		if !errors.Is(err, want) || time.Since(start) > 10*time.Second {
			t.Errorf("%s: %v after %s", url, err, time.Since(start))
		}
		if err != nil && strings.Contains(err.Error(), "p@ss") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestAJournalOverTLSNeedsTheClientCertificate(t *testing.T) {
	server := clustertest.WithTLS(t)
	succeed(t, benchAt(t, "etcds://"+server.Addr+"/tls"+server.All))
	for what, url := range map[string]string{
		"no client certificate": "etcds://" + server.Addr + "/tls" + server.Root,
		"no root":               "etcds://" + server.Addr + "/tls",
		"no TLS":                "etcd://" + server.Addr + "/tls",
	} {
		if other, err := Open(t.Context(), url, Options{RequestTimeout: time.Second}); err == nil {
			other.Close()
			t.Errorf("%s is enough", what)
		}
	}
}
