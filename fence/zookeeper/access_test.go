package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func fourLetters(t *testing.T, server, word string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", server, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, word); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestRootsKeepElectionsApart(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := plainConn(t, ensemble)
	one := openFor(t, "zk://"+ensemble+"/deep/er/one", 20*time.Second)
	two := openFor(t, "zk://"+ensemble+"/deep/er/two", 20*time.Second)
	first, second := win(t, one, "orders", "a"), win(t, two, "orders", "a")
	if first.State() != fence.Active || second.State() != fence.Active {
		t.Errorf("%v is %v, %v is %v", first.Claim(), first.State(), second.Claim(), second.State())
	}
	if first.Claim().Issuer == second.Claim().Issuer {
		t.Error("two roots have one issuer")
	}
	for _, at := range []string{"/deep/er/one/issuer", "/deep/er/one/elections/orders", "/deep/er/two/issuer"} {
		if there, _, err := admin.Exists(at); !there || err != nil {
			t.Errorf("%s exists: %v, %v", at, there, err)
		}
	}
}

func TestCredentialsKeepOthersOut(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://alice:s%3Acret@"+ensemble+"/private", 20*time.Second)
	term := win(t, c, "orders", "a")
	if err := term.Acknowledge(t.Context()); err != nil {
		t.Error(err)
	}
	dir := c.electionPath("orders")
	names, _, err := c.eyes.s.conn.Children(dir)
	if err != nil || len(names) != 2 {
		t.Fatalf("alice sees %q, %v", names, err)
	}
	mallory := plainConn(t, ensemble)
	if err := mallory.AddAuth("digest", []byte("mallory:guess")); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := mallory.Delete(dir+"/"+name, -1); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("mallory's delete of %s returned %v", name, err)
		}
	}
	if _, err := mallory.Create(dir+"/c-x", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("mallory's create returned %v", err)
	}
	confirmedAgain(t, term)

	for name, url := range map[string]string{
		"wrong password": "zk://alice:wr0ng@" + ensemble + "/private",
		"other user":     "zk://bob:s%3Acret@" + ensemble + "/private",
		"nobody":         "zk://" + ensemble + "/private",
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{SessionTimeout: time.Minute} // who does not take no for an answer asks for so long
			begin := time.Now()
			_, err := Open(t.Context(), url, o)
			if !errors.Is(err, zk.ErrNoAuth) || strings.Contains(err.Error(), "cret") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("Open returned %v", err)
			}
			a, _ := parseURL(url)
			other := newCoordinator(a, o)
			defer other.Close()
			if _, err := other.Campaign(t.Context(), "orders", "b"); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Campaign returned %v", err)
			}
			if _, err := other.Candidates(t.Context(), "orders"); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Candidates returned %v", err)
			}
			if err := other.Watch(t.Context(), "orders", func([]fence.Candidate) error { return nil }); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Watch returned %v", err)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("the refusals took %v", took)
			}
		})
	}
}

func TestCredentialsOutliveAReconnection(t *testing.T) {
	r := newRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://alice:secret@"+r.addr()+"/again", 20*time.Second)
	term := win(t, c, "orders", "a")
	r.dropAll()
	confirmedAgain(t, term)
	if err := term.Acknowledge(t.Context()); err != nil {
		t.Error(err)
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnUnreachableEnsembleIsSaidSo(t *testing.T) {
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
			if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
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

// listener does something with each connection, and closes all at the end.
func listener(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	r := newRelay(t, serverstest.SharedZooKeeper(t).Addr())
	r.hold()
	a, err := parseURL("zk://" + r.addr() + "/patient")
	if err != nil {
		t.Fatal(err)
	}
	c := newCoordinator(a, Options{SessionTimeout: 5 * time.Second})
	defer c.Close()
	dialled := make(chan struct{}, 1000)
	c.probe.link = func(*link) { dialled <- struct{}{} }
	won := make(chan error, 1)
	go func() {
		_, err := c.Campaign(t.Context(), "orders", "a")
		won <- err
	}()
	<-dialled
	<-dialled // a silent server is given up, not waited for
	r.pass()
	if err := <-won; err != nil {
		t.Error(err)
	}
}

func TestASilentServerIsGivenUpForTheNext(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	silent := listener(t, func(net.Conn) {})
	for range 3 { // whichever is tried first
		c := openFor(t, "zk://"+silent+","+ensemble+"/next", 10*time.Second)
		if err := win(t, c, "orders", "a").Resign(t.Context()); err != nil {
			t.Error(err)
		}
		c.Close()
	}
}
