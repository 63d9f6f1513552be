package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestAServerThatStopsAndStarts(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	b := newBench(t, z.Addr())
	quick := zookeeper.Options{SessionTimeout: 2 * time.Second}
	j, standby := b.journal(quick), b.journal(quick)
	// The timeout is as long as a wiped server needs until it serves well.
	patient := b.journal(zookeeper.Options{})
	c := b.Lead(orders)
	var last int64
	t.Run("killed during publishes it loses nothing and doubles nothing, and strands no follower",
		func(t *testing.T) {
			last = journaltest.ThroughKills(t, j, standby, c, 2, 10, func(int, func(string)) {
				if err := errors.Join(z.Kill(), z.Start(t.Context())); err != nil {
					t.Fatal(err)
				}
			})
		})
	t.Run("out of reach is transient: nothing was sent, so nothing has landed", func(t *testing.T) {
		if err := z.Stop(); err != nil {
			t.Fatal(err)
		}
		journaltest.OutOfReach(t, j, c, last)
	})
	t.Run("wiped it is another issuer: no newer leader to the one of before, and no way in",
		func(t *testing.T) {
			if err := z.Wipe(t.Context()); err != nil {
				t.Fatal(err)
			}
			refused(t, patient, c, fence.ErrOtherIssuer, checkpoint.Checkpoint{})
		})
}
