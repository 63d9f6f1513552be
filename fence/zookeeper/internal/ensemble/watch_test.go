package ensemble

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A session may live for years, and thousands of znodes may come and go in it.
func TestASessionKeepsOnlyTheWatchesThatAreSet(t *testing.T) {
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	root := zookeepertest.FreshRoot()
	c := openClient(t, "zk://"+r.Addr()+root, time.Minute)
	s, err := c.NewSession(t.Context())
	must.Succeed(t, err)
	defer s.Close()
	must.Succeed(t, s.Ensure(t.Context(), root+"/stays"))
	_, stays, err := s.WatchData(t.Context(), root+"/stays")
	must.Succeed(t, err)
	for i := range 300 {
		at := fmt.Sprintf("%s/goes-%d", root, i)
		must.Succeed(t, s.Ensure(t.Context(), at))
		for range 2 { // the second one is shared
			if _, _, err := s.WatchData(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Do(t.Context(), s, func(conn *zk.Conn) (any, error) {
			return nil, conn.Delete(at, -1)
		}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.WatchData(t.Context(), at); err == nil {
			t.Fatal("a deleted znode was read")
		}
	}
	s.mu.Lock()
	watches, paths := len(s.watches), len(s.paths)
	s.mu.Unlock()
	if watches > 2*minPrune || paths > 2*minPrune {
		t.Errorf("the session keeps %d watches on %d paths", watches, paths)
	}
	connects := s.Connects()
	r.Drop()
	select {
	case <-stays:
	case <-time.After(30 * time.Second):
		t.Fatal("the watch that is set has not fired when the connection broke")
	}
	must.Succeed(t, s.AwaitConnect(t.Context(), connects))
	if _, again, err := s.WatchData(t.Context(), root+"/stays"); err != nil || again == stays {
		t.Errorf("the next connection has the watch of the one before, %v", err)
	}
}

// The request for the watch waits for the next connection.
func TestAWatchOfAQueuedRequestIsShared(t *testing.T) {
	s, r, root := resumable(t)
	r.Hold()
	r.Drop()
	zookeepertest.Eventually(t, "the library waits for a greeting", func() bool {
		return s.conn.State() == zk.StateConnected
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	armed := make(chan (<-chan zk.Event), 1)
	go func() {
		_, fired, err := s.WatchData(ctx, root)
		must.Report(t, err)
		armed <- fired
	}()
	zookeepertest.Eventually(t, "the watch is requested", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.paths[root] == 1
	})
	r.Pass()
	first := <-armed
	if _, second, err := s.WatchData(ctx, root); err != nil || second != first {
		t.Errorf("the watch was set twice, %v", err)
	}
}
