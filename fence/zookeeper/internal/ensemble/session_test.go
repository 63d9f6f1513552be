package ensemble

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// openClient makes a client and closes it with the test.
func openClient(t *testing.T, url string, timeout time.Duration) *Client {
	t.Helper()
	c, err := New(url, timeout, nil, Denied)
	must.Succeed(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOnlyTheFirstSessionIsAccepted(t *testing.T) {
	first := greeting{10 * time.Second, 7}
	for name, c := range map[string]struct {
		second greeting
		want   error
	}{
		"the same":         {first, nil},
		"expired":          {greeting{0, 0}, errExpired},
		"another session":  {greeting{10 * time.Second, 8}, errExpired},
		"a shorter one":    {greeting{9 * time.Second, 7}, errExpired},
		"a negative limit": {greeting{-1, 7}, errExpired},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Session{over: make(chan struct{}), changed: make(chan struct{})}
			if err := s.greeted(first); err != nil || s.id != 7 || s.timeout != 10*time.Second {
				t.Fatalf("first greeting: %v, session %d, timeout %v", err, s.id, s.timeout)
			}
			if err := s.greeted(c.second); !errors.Is(err, c.want) {
				t.Errorf("second greeting: %v; want %v", err, c.want)
			}
			if c.want != nil {
				if err := s.greeted(first); !errors.Is(err, c.want) {
					t.Errorf("a session that was over was taken again: %v", err)
				}
			}
		})
	}
}

// A request is queued while the session ends. The library alone runs it in another session, which
// it accepts silently; link prevents that.
func TestNoRequestRunsInASecondSession(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := zookeepertest.Connect(t, ensemble)
	exists := func(at string) bool {
		there, _, err := admin.Exists(at)
		must.Succeed(t, err)
		return there
	}
	for name, end := range map[string]func(*zookeepertest.Relay){
		"expired": func(r *zookeepertest.Relay) {
			r.ExpireSessions()
			r.Pass()
		},
		"greeted as new": func(r *zookeepertest.Relay) {
			r.Set(func() { r.Forgetful = true })
			r.Pass()
		},
	} {
		t.Run(name+"/the library runs it", func(t *testing.T) {
			r := zookeepertest.NewRelay(t, ensemble)
			// After all of them the library gives up its requests.
			conn := zookeepertest.Connect(t, strings.Join(slices.Repeat([]string{r.Addr()}, 20), ","))
			before := conn.SessionID()
			at, created := queuedCreate(t, r, conn)
			end(r)
			if err := <-created; err != nil || !exists(at) || conn.SessionID() == before {
				t.Errorf("the library has changed: create returned %v, exists %v", err, exists(at))
			}
		})
		t.Run(name+"/a session of ours does not", func(t *testing.T) {
			r := zookeepertest.NewRelay(t, ensemble)
			c := openClient(t, "zk://"+r.Addr(), 5*time.Second)
			s, err := c.openSession(t.Context(), true)
			must.Succeed(t, err)
			defer s.Close()
			at, created := queuedCreate(t, r, s.conn)
			end(r)
			select {
			case <-s.over:
			case err := <-created:
				t.Fatalf("create returned %v, exists %v", err, exists(at))
			}
			if _, _, cause := s.State(); !errors.Is(cause, errExpired) {
				t.Errorf("the session is over because %v", cause)
			}
			if _, err := Do(t.Context(), s, getter("/")); !errors.Is(err, errExpired) {
				t.Errorf("a request after the end returned %v", err)
			}
			s.Close()
			if err := <-created; err == nil || exists(at) {
				t.Errorf("create returned %v, exists %v", err, exists(at))
			}
		})
	}
}

// queuedCreate breaks the connection, and queues a create while the next connection waits for its
// greeting.
func queuedCreate(
	t *testing.T, r *zookeepertest.Relay, conn *zk.Conn,
) (at string, created chan error) {
	t.Helper()
	at = "/second-session-" + strings.Trim(zookeepertest.FreshRoot(), "/")
	r.Hold()
	r.Drop()
	zookeepertest.Eventually(t, "the library waits for a greeting", func() bool {
		return conn.State() == zk.StateConnected
	})
	created = make(chan error, 1)
	go func() {
		_, err := conn.Create(at, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		created <- err
	}()
	return at, created
}

func TestTheGrantedTimeoutCounts(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr() // grants 400 ms to 60 s
	for asked, granted := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 400 * time.Millisecond,
		3 * time.Second:       3 * time.Second,
		time.Hour:             time.Minute,
	} {
		a, err := parseURL("zk://" + ensemble + "/granted")
		must.Succeed(t, err)
		c := newClient(a, asked, nil)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := c.openSession(ctx, true)
		for SessionOver(err) { // a timeout of 400 ms may be too short for this machine
			s, err = c.openSession(ctx, true)
		}
		must.Succeed(t, err)
		if s.timeout != granted {
			t.Errorf("requested %v, was granted %v; want %v", asked, s.timeout, granted)
		}
		s.Close()
	}
}

// The library is closed while requests are in progress and sends fail, as in a process that wakes
// after its session has expired. Without link, it waits for ever in about one case of ten.
func TestTheLibraryEndsWhenSendsFail(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 8 {
				at := campaign.Address{Hosts: strings.Split(ensemble, ","), Path: zookeepertest.FreshRoot()}
				if !endsWhenSendsFail(t, newClient(at, 0, nil)) {
					return
				}
			}
		})
	}
	all.Wait()
}

func endsWhenSendsFail(t *testing.T, c *Client) bool {
	var broken atomic.Bool
	c.onLink = func(l *link) { l.Conn = brittle{l.Conn, &broken} }
	s, err := c.openSession(t.Context(), true)
	if err != nil {
		t.Error(err)
		return false
	}
	var work sync.WaitGroup
	for range 30 {
		work.Go(func() {
			for err := error(nil); err == nil; {
				_, _, err = s.conn.Exists("/")
			}
		})
	}
	work.Go(func() { broken.Store(true) })
	work.Go(func() { s.conn.Close() })
	work.Wait()
	s.hangUp()
	select {
	case <-s.loop:
		s.Close()
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
	}
	return !t.Failed()
}

// brittle is a connection that breaks in the middle of a send.
type brittle struct {
	net.Conn
	broken *atomic.Bool
}

func (b brittle) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, errors.Join(errBroken, b.Conn.Close())
	}
	return b.Conn.Write(p)
}
