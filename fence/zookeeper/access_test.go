package zookeeper

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func fourLetters(t *testing.T, server, word string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", server, 5*time.Second)
	must.Succeed(t, err)
	defer c.Close()
	_, err = io.WriteString(c, word)
	must.Succeed(t, err)
	answer, err := io.ReadAll(c)
	must.Succeed(t, err)
	return string(answer)
}

func TestRootsKeepElectionsApart(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := zookeepertest.Connect(t, ensemble)
	one := openFor(t, "zk://"+ensemble+"/deep/er/one", 20*time.Second)
	two := openFor(t, "zk://"+ensemble+"/deep/er/two", 20*time.Second)
	first, second := electiontest.Win(t, one, "orders", "a"), electiontest.Win(t, two, "orders", "a")
	if first.State() != fence.Active || second.State() != fence.Active {
		t.Errorf("%v is %v, %v is %v", first.Claim(), first.State(), second.Claim(), second.State())
	}
	if first.Claim().Issuer == second.Claim().Issuer {
		t.Error("two roots have one issuer")
	}
	for _, at := range []string{"/deep/er/one/issuer", "/deep/er/one/elections/orders",
		"/deep/er/two/issuer"} {
		if there, _, err := admin.Exists(at); !there || err != nil {
			t.Errorf("%s exists: %v, %v", at, there, err)
		}
	}
}

func TestCredentialsKeepOthersOut(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://alice:s%3Acret@"+ensemble+"/private/deep", 20*time.Second)
	term := electiontest.Win(t, c, "orders", "a")
	must.Report(t, term.Acknowledge(t.Context()))
	alice := zookeepertest.Connect(t, ensemble)
	must.Succeed(t, alice.AddAuth("digest", []byte("alice:s:cret")))
	all := below(t, alice, "/private")
	if len(all) != 7 {
		t.Fatalf("alice sees %q", all)
	}
	nobody, mallory := zookeepertest.Connect(t, ensemble), zookeepertest.Connect(t, ensemble)
	must.Succeed(t, mallory.AddAuth("digest", []byte("mallory:guess")))
	for who, conn := range map[string]*zk.Conn{"nobody": nobody, "mallory": mallory} {
		for _, at := range all {
			zookeepertest.MayDoNothing(t, who, conn, at)
		}
	}
	if again := below(t, alice, "/private"); !slices.Equal(again, all) {
		t.Errorf("alice sees %q; before it was %q", again, all)
	}
	confirmedAgain(t, term)

	for name, url := range map[string]string{
		"wrong password": "zk://alice:wr0ng@" + ensemble + "/private/deep",
		"other user":     "zk://bob:s%3Acret@" + ensemble + "/private/deep",
		"nobody":         "zk://" + ensemble + "/private/deep",
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{SessionTimeout: time.Minute} // a client that retried would take that long
			begin := time.Now()
			_, err := Open(t.Context(), url, o)
			if !errors.Is(err, zk.ErrNoAuth) || strings.Contains(err.Error(), "cret") ||
				strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("Open returned %v", err)
			}
			other := silent(t, url, o)
			defer other.Close()
			if _, err := other.Campaign(t.Context(), "orders", "b"); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Campaign returned %v", err)
			}
			if _, err := other.Candidates(t.Context(), "orders"); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Candidates returned %v", err)
			}
			if issuer, leaders, err := other.Leaders(t.Context(), "orders"); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Leaders returned %q, %+v, %v", issuer, leaders, err)
			}
			if err := other.Watch(t.Context(), "orders", func([]elector.Candidate) error {
				return nil
			}); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Watch returned %v", err)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("the refusals took %v", took)
			}
		})
	}
}

// silent makes a coordinator that has not made a request yet.
func silent(t *testing.T, url string, o Options) *Coordinator {
	t.Helper()
	c, err := unopened(url, o)
	must.Succeed(t, err)
	return c
}

// below lists a znode and all below it.
func below(t *testing.T, conn *zk.Conn, at string) []string {
	t.Helper()
	names, _, err := conn.Children(at)
	must.Succeed(t, err)
	all := []string{at}
	for _, name := range slices.Sorted(slices.Values(names)) {
		all = append(all, below(t, conn, at+"/"+name)...)
	}
	return all
}

// Later sessions do not repeat the warning.
func TestOpenWarnsOnceWhoElseMayChangeElections(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	open, shared := zookeepertest.FreshRoot(), zookeepertest.FreshRoot()
	admin := zookeepertest.Connect(t, ensemble)
	acl := slices.Concat(zk.DigestACL(zk.PermAll, "alice", "secret"),
		zk.DigestACL(zk.PermCreate|zk.PermRead, "bob", "s3cret"), zk.WorldACL(zk.PermRead))
	_, err := admin.Create(shared, nil, zk.FlagPersistent, acl)
	must.Succeed(t, err)
	for _, c := range []struct {
		name, url string
		says      string // nothing: no warning
	}{
		{"no credentials", "zk://" + ensemble + open, "anybody who reaches this ZooKeeper"},
		{"credentials", "zk://alice:secret@" + ensemble + zookeepertest.FreshRoot(), ""},
		{"a root made without", "zk://alice:secret@" + ensemble + open,
			"znode=" + open + " others=[world:anyone]"},
		{"another user's root", "zk://alice:secret@" + ensemble + shared,
			"znode=" + shared + " others=[digest:bob]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log synchronized
			logger := slog.New(slog.NewTextHandler(&log, nil))
			co, err := Open(t.Context(), c.url, Options{SessionTimeout: 20 * time.Second, Logger: logger})
			must.Succeed(t, err)
			defer co.Close()
			for _, r := range []fence.Resource{"orders", "invoices"} { // each in its own session
				must.Report(t, electiontest.Win(t, co, r, "a").Resign(t.Context()))
				co.campaigns.Current().End(fence.ErrExpired)
			}
			co.client.Drop(co.client.Current())
			named(t, co, "orders")
			warned := strings.Count(log.String(), "can depose leaders")
			if c.says == "" && warned != 0 || c.says != "" &&
				(warned != 1 || !strings.Contains(log.String(), c.says)) {
				t.Errorf("logged is %q; want one warning with %q", log.String(), c.says)
			}
			if strings.Contains(log.String(), "cret") {
				t.Errorf("a secret is logged: %q", log.String())
			}
		})
	}
}

// synchronized is a buffer for several goroutines.
type synchronized struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *synchronized) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *synchronized) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestCredentialsOutliveAReconnection(t *testing.T) {
	t.Parallel()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://alice:secret@"+r.Addr()+"/again", 20*time.Second)
	term := electiontest.Win(t, c, "orders", "a")
	r.Drop()
	confirmedAgain(t, term)
	must.Report(t, term.Acknowledge(t.Context()))
	must.Succeed(t, term.Resign(t.Context()))
}

func TestOpenSaysWhyAnEnsembleIsUnreachable(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes as long as a session timeout of 5 s")
	}
	closed := listener(t, func(c net.Conn) { c.Close() })
	silent := listener(t, func(net.Conn) {})
	other := listener(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	for name, c := range map[string]struct{ url, says string }{
		"nobody listens": {"zk://alice:secret@127.0.0.1:1,127.0.0.1:2", "connection refused"},
		"it hangs up":    {"zk://alice:secret@" + closed, "last failure"},
		"it is silent":   {"zk://alice:secret@" + silent, "is it running"},
		"not ZooKeeper":  {"zk://alice:secret@" + other, "another service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			_, err := Open(t.Context(), c.url, Options{SessionTimeout: 5 * time.Second})
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), c.says) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("Open returned %v; want it to say %q", err, c.says)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("Open took %v", took)
			}
			enough := errors.New("enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, enough)
			defer cancel()
			if _, err := Open(ctx, c.url, Options{}); !errors.Is(err, enough) {
				t.Errorf("Open whose context ended returned %v", err)
			}
		})
	}
}

// listener calls do with each connection, and closes all of them with the test.
func listener(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	done := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			do(c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String()
}

func TestACampaignWaitsForTheEnsembleToComeUp(t *testing.T) {
	t.Parallel()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	r.Hold()
	c := silent(t, "zk://"+r.Addr()+"/patient", Options{SessionTimeout: 5 * time.Second})
	defer c.Close()
	won := make(chan error, 1)
	go func() {
		_, err := c.Campaign(t.Context(), "orders", "a")
		won <- err
	}()
	zookeepertest.Eventually(t, "a silent server is given up, not waited for", func() bool {
		return r.Accepted() >= 2
	})
	r.Pass()
	must.Succeed(t, <-won)
}

func TestAfterASilentServerTheNextOneIsTried(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	silent := listener(t, func(net.Conn) {})
	for range 3 { // the first server is random
		c := openFor(t, "zk://"+silent+","+ensemble+"/next", 10*time.Second)
		must.Report(t, electiontest.Win(t, c, "orders", "a").Resign(t.Context()))
		c.Close()
	}
}
