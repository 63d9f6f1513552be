package ensemble

import (
	"context"
	"encoding/binary"
	"net"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// resumable opens a session through a relay, and makes the root.
func resumable(t *testing.T) (*Session, *zookeepertest.Relay, string) {
	t.Helper()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	root := zookeepertest.FreshRoot()
	c := openClient(t, "zk://"+r.Addr()+root, time.Minute)
	s, err := c.NewSession(t.Context())
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	must.Succeed(t, s.Ensure(t.Context(), root))
	return s, r, root
}

// The session does not know this watch, so it outlives the connection. The test stops the library
// just before it looks which watches to set again, until the library has handled a reply.
func TestAWatchThatTheLibrarySetsAgainMissesNoChange(t *testing.T) {
	s, r, root := resumable(t)
	admin := zookeepertest.Connect(t, r.Server)
	watchers := (*sync.Mutex)(unsafe.Pointer(
		reflect.ValueOf(s.conn).Elem().FieldByName("watchersLock").UnsafeAddr()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 10 {
		_, _, fired, err := s.conn.GetW(root)
		must.Succeed(t, err)
		r.Hold()
		r.Drop()
		zookeepertest.Eventually(t, "the library waits for a greeting", func() bool {
			return s.conn.State() == zk.StateConnected
		})
		_, err = admin.Set(root, nil, -1)
		must.Succeed(t, err)
		watchers.Lock()
		r.Pass()
		_, err = s.List(ctx, root)
		watchers.Unlock()
		must.Succeed(t, err)
		select {
		case <-fired:
		case <-time.After(30 * time.Second):
			t.Fatal("the watch is silent, though the znode changed while there was no connection")
		}
	}
}

// More requests wait for each connection than the library queues, so replies come while it looks
// which watches to set again. The race detector must find nothing.
func TestASessionWithWatchesReconnectsWithoutARace(t *testing.T) {
	s, r, root := resumable(t)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	for range 40 {
		work.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.List(ctx, root); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 50 {
		connects := s.Connects()
		_, err := Retry(ctx, s, func(conn *zk.Conn) (any, error) {
			_, _, _, err := conn.GetW(root) // unknown to the session, so the library sets it again
			return nil, err
		})
		must.Succeed(t, err)
		r.Drop()
		must.Succeed(t, s.AwaitConnect(ctx, connects))
	}
}

// A server refuses a client that has seen more than itself. So reads never go back in time.
func TestASessionReconnectsWithTheLastZxidThatItHasSeen(t *testing.T) {
	s, r, root := resumable(t)
	var presented int64 // the last one
	s.Client.onLink = func(l *link) { l.Conn = &connectRequest{Conn: l.Conn, zxid: &presented} }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		stat, err := Do(ctx, s, func(conn *zk.Conn) (*zk.Stat, error) {
			return conn.Set(root, nil, -1)
		})
		must.Succeed(t, err)
		connects := s.Connects()
		r.Drop()
		must.Succeed(t, s.AwaitConnect(ctx, connects))
		if presented < stat.Mzxid {
			t.Errorf("it reconnects with zxid %d, and has seen %d", presented, stat.Mzxid)
		}
	}
}

// connectRequest reads the zxid of the first request.
type connectRequest struct {
	net.Conn
	zxid *int64
	sent bool
}

func (c *connectRequest) Write(p []byte) (int, error) {
	if !c.sent {
		*c.zxid, c.sent = int64(binary.BigEndian.Uint64(p[8:])), true
	}
	return c.Conn.Write(p)
}
