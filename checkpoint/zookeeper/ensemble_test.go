package zookeeper_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestInAnEnsembleOfThree(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3, TickTime: time.Second})
	t.Run("the limit is exact, and what is within it passes between the servers",
		func(t *testing.T) { limitIsExact(t, z) })
	// For five ticks a server without its ensemble still answers some requests. A server that
	// believes that it leads the ensemble answers a sync; a follower answers reads.
	t.Run("a leading server without its ensemble confirms nobody", func(t *testing.T) {
		confirmsNobody(t, z, "leader", z.Resume)
	})
	t.Run("a following server without its ensemble confirms nobody", func(t *testing.T) {
		confirmsNobody(t, z, "follower", z.Kill)
	})
}

func limitIsExact(t *testing.T, z *servers.ZooKeeper) {
	b := newBench(t, z.Addr())
	journaltest.LimitIsExact(t, b.journal(zookeeper.Options{}), b.Lead(orders), 1_000_000,
		"nothing was written")
}

func confirmsNobody(t *testing.T, z *servers.ZooKeeper, mode string, after func() error) {
	b := newBench(t, z.Addr())
	c := b.Lead(orders)
	first := version(1, c)
	publish(t, b.journal(zookeeper.Options{}), c, first)
	alone := inMode(t, z, mode)
	only := &bench{t: t, url: "zk://" + alone.Addr() + b.url[strings.LastIndexByte(b.url, '/'):]}
	j, control := only.journal(zookeeper.Options{}), only.hand()
	reader := only.journal(zookeeper.Options{}) // a session's reads wait for its own transactions
	stored(t, j, first)
	for _, n := range z.Nodes {
		if n != alone {
			if err := n.Pause(); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer after()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	answers := make(chan error, 2)
	go func() { answers <- j.Raise(ctx, c) }()
	go func() { _, _, err := j.Take(ctx, c, nightly, 1); answers <- err }()
	if mode == "leader" {
		if _, err := control.Sync(b.path(nightly)); err != nil {
			t.Errorf("the server does not sync: %v; this test proves nothing", err)
		}
	}
	if _, _, err := control.Get(b.path(nightly)); err != nil {
		t.Errorf("the server does not answer: %v; this test proves nothing", err)
	}
	if _, err := reader.Load(ctx, nightly); mode == "follower" &&
		!errors.Is(err, checkpoint.ErrTransient) {
		t.Errorf("load returned %v", err)
	}
	for range 2 {
		if err := <-answers; !errors.Is(err, checkpoint.ErrTransient) {
			t.Errorf("raise or take returned %v", err)
		}
	}
}

// inMode returns a node in this mode, leader or follower.
func inMode(t *testing.T, z *servers.ZooKeeper, mode string) (found *servers.ZooKeeperNode) {
	t.Helper()
	eventually(t, "a node is in mode "+mode, func() bool {
		for _, n := range z.Nodes {
			if strings.Contains(status(n.Addr()), "Mode: "+mode) {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// status returns a server's answer to srvr, or the part before the connection broke.
func status(server string) string {
	conn, err := net.DialTimeout("tcp", server, 5*time.Second)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(conn, "srvr")
	answer, _ := io.ReadAll(conn)
	return string(answer)
}
