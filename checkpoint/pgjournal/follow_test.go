package pgjournal_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// All databases of a server share one queue of notices.
func TestAStandbyThatFollowsHoldsBackNoNotices(t *testing.T) {
	t.Parallel()
	d := installed(t)
	j := d.journal(t, pgjournal.Options{Poll: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		_ = j.Follow(ctx, "task", func(checkpoint.Checkpoint) error { return nil })
	})
	defer following.Wait()
	defer cancel()
	const listens = "select pid::text from pg_stat_activity where application_name = '' and datname " +
		"= current_database() and query like '%ringfence_private.checkpoint%'"
	if !poll.Until(patience, func() bool { return len(d.list(t, listens)) > 0 }) {
		t.Fatal("nothing follows")
	}
	serverstest.AwaitNoticesRead(t, d.pg)
}
