package redisjournal_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/redisjournal"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// follow runs Follow concurrently with the test and sends the versions that it sees.
func follow(t *testing.T, j *redisjournal.Journal) (seen <-chan int64, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	shown, done := make(chan int64, 100), make(chan error, 1)
	var following sync.WaitGroup
	following.Go(func() {
		done <- j.Follow(ctx, nightly, func(cp checkpoint.Checkpoint) error {
			shown <- cp.Version
			return nil
		})
	})
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	return shown, done
}

func await(t *testing.T, seen <-chan int64, version int64) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for {
		select {
		case v := <-seen:
			if v == version {
				return
			}
			if v > version {
				t.Fatalf("shown version %d, want %d", v, version)
			}
		case <-patience:
			t.Fatalf("version %d was not shown", version)
		}
	}
}

// The followers do not poll here: the script that publishes also sends the message.
func TestAPublishNotifiesFollowers(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	j := b.journal(t, redisjournal.Options{Poll: time.Hour})
	seen, _ := follow(t, b.journal(t, redisjournal.Options{Poll: time.Hour}))
	c := b.lead(t, j, "orders")
	for n := int64(1); n <= 3; n++ {
		publish(t, j, c, n)
		await(t, seen, n)
	}
	// The follower subscribes again by itself and then reads.
	b.do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	publish(t, j, c, 4)
	await(t, seen, 4)
	publish(t, j, c, 5)
	await(t, seen, 5)
}

// No message arrives here, because the user has no right to the channel.
func TestFollowersWithoutNotificationsPoll(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	mute := b.as(t, redisjournal.ACL("mute", "secret")+" resetchannels",
		redisjournal.Options{Poll: 10 * time.Millisecond})
	seen, _ := follow(t, mute)
	j := b.journal(t, redisjournal.Options{})
	c := b.lead(t, j, "orders")
	for n := int64(1); n <= 3; n++ {
		publish(t, mute, c, n)
		await(t, seen, n)
	}
}

func TestFollowersSurviveARestart(t *testing.T) {
	b := newBench(t, durable(t))
	j := b.journal(t, redisjournal.Options{})
	seen, _ := follow(t, b.journal(t, redisjournal.Options{Poll: 50 * time.Millisecond}))
	c := b.lead(t, j, "orders")
	publish(t, j, c, 1)
	await(t, seen, 1)
	must.Succeed(t, b.Kill())
	must.Succeed(t, b.Start(t.Context()))
	must.Succeed(t, patiently(t, func() error { return j.Raise(t.Context(), c) }))
	publish(t, j, c, 2)
	await(t, seen, 2)
}

// Waiting fixes neither, so Follow does not wait.
func TestFollowEndsWithoutRightsAndWithTheJournal(t *testing.T) {
	b := newBench(t, serverstest.Redis(t, servers.RedisOptions{}))
	blind := b.as(t, redisjournal.ACL("blind", "secret")+" -hget", redisjournal.Options{})
	_, ended := follow(t, blind)
	if _, setup := errors.AsType[*fence.SetupError](<-ended); !setup {
		t.Error("without rights it ended otherwise")
	}
	j := b.journal(t, redisjournal.Options{Poll: 10 * time.Millisecond})
	_, ended = follow(t, j)
	j.Close()
	if err := <-ended; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
