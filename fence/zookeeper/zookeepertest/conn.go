package zookeepertest

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

var roots atomic.Int64

// FreshRoot returns a path that no other test of this process has used in the shared ensemble.
func FreshRoot() string { return fmt.Sprintf("/fresh-%d", roots.Add(1)) }

// Connect returns a connection of the library, without any of our code, that ends with the test.
func Connect(t testing.TB, servers string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(strings.Split(servers, ","), 10*time.Second,
		zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events { // until the connection's loop has ended
		}
	})
	Eventually(t, "the library is connected", func() bool { // then all its goroutines run
		_, err := conn.Sync("/")
		return err == nil
	})
	return conn
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// MayDoNothing fails the test unless the connection can neither change nor read a znode. Everybody
// may delete a znode in /, but this one has children.
func MayDoNothing(t testing.TB, who string, conn *zk.Conn, at string) {
	t.Helper()
	name := path.Join(at, CandidateName("0000000001"))
	world := zk.WorldACL(zk.PermAll)
	_, persistent := conn.Create(name, nil, zk.FlagPersistent, world)
	_, ephemeral := conn.Create(name, nil, zk.FlagEphemeral, world)
	_, sequential := conn.Create(path.Join(at, candidatePrefix), nil,
		zk.FlagEphemeralSequential, world)
	_, multi := conn.Multi(&zk.CreateRequest{Path: name, Acl: world, Flags: zk.FlagEphemeral})
	_, check := conn.Multi(&zk.CheckVersionRequest{Path: at, Version: -1})
	_, set := conn.Set(at, nil, -1)
	_, setACL := conn.SetACL(at, world, -1)
	_, _, get := conn.Get(at)
	_, _, list := conn.Children(at)
	removed := conn.Delete(at, -1)
	for what, err := range map[string]error{
		"create": persistent, "create of a candidate": ephemeral,
		"create of a sequential znode": sequential,
		"transaction that creates":     multi, "check": check, "set": set, "set of the ACL": setACL,
		"get": get, "list": list, "delete": removed,
	} {
		if !errors.Is(err, zk.ErrNoAuth) && (what != "delete" || path.Dir(at) != "/" ||
			!errors.Is(err, zk.ErrNotEmpty)) {
			t.Errorf("%s of %s by %s returned %v", what, at, who, err)
		}
	}
}

// Eventually polls until the condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Within(t, 30*time.Second, what, holds)
}

// Within polls until the condition holds, as long as the limit.
func Within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
