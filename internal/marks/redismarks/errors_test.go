package redismarks_test

import (
	"context"
	"errors"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A driver retries a command whose answer is lost. Under a claim it does not, and the error says
// that the outcome is unknown.
func TestACommandWhoseAnswerIsLostIsNotRunTwice(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(5))
	w := serverstest.NewRelay(t, b.server.Addr())
	db := b.client(t, func(o *driver.Options) { o.Addr, o.MaxRetries = w.Addr(), 3 })
	run := func() error {
		_, err := redismarks.Run(t.Context(), db, claim(5), []any{"INCR", "n"})
		return err
	}
	must.Succeed(t, run())
	w.LoseReply()
	if err := run(); !errors.Is(err, redismarks.ErrUnknown) || errors.Is(err, redismarks.ErrNotRun) {
		t.Errorf("run: %v", err)
	}
	if n := b.do(t, "GET", "n"); n != "2" {
		t.Errorf("INCR was run %v times in all, want 2", n)
	}
	// on a new connection, so that the next lost answer is that of a command
	must.Succeed(t, run())
	w.LoseReply()
	if err := db.Incr(t.Context(), "plain").Err(); err != nil || b.do(t, "GET", "plain") != "2" {
		t.Errorf("a plain command was run %v times, want 2: no answer was lost (%v)",
			b.do(t, "GET", "plain"), err)
	}
}

func TestAServerThatIsDownHasRunNothing(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	b := open(t, server)
	b.raise(t, claim(5))
	db := b.client(t, func(o *driver.Options) { o.DialerRetries = 1 })
	must.Succeed(t, server.Kill())
	if err := put(t, db, claim(5), "x"); !errors.Is(err, redismarks.ErrNotRun) ||
		errors.Is(err, redismarks.ErrUnknown) {
		t.Errorf("a server that is down: %v", err)
	}
	_ = db.Close()
	if err := put(t, db, claim(5), "x"); !errors.Is(err, redismarks.ErrNotRun) {
		t.Errorf("a client that is closed: %v", err)
	}
}

// A user's script runs under the same check. An error that the script raises must not be mistaken
// for one from before the script.
func TestAUsersScriptRunsUnderAToken(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	b.raise(t, claim(large))
	db := b.client(t, nil)
	s := redismarks.NewScript(`
		if redis.call('GET', KEYS[1]) == ARGV[4] then
			return redis.error_reply('TAKEN by ' .. ARGV[2])
		end
		redis.call('SET', KEYS[1], ARGV[4])`)
	got, err := s.Run(t.Context(), db, claim(large), []string{"a"}, "v")
	if got != nil || err != nil {
		t.Fatalf("%v, %v", got, err)
	}
	_, err = s.Run(t.Context(), db, claim(large), []string{"a"}, "v")
	if !driver.HasErrorPrefix(err, "TAKEN by "+large.String()) {
		t.Errorf("the error that it returns: %v", err)
	}
	_, err = s.Run(t.Context(), db, claim(large-1), []string{"a"}, "w")
	if !errors.Is(err, fence.ErrStale) || b.do(t, "GET", "a") != "v" {
		t.Errorf("an older token: %v", err)
	}
	b.do(t, "XGROUP", "CREATE", "stream", "g", "0", "MKSTREAM")
	busy := redismarks.NewScript(`redis.call('INCR', 'n')
		return redis.call('XGROUP', 'CREATE', 'stream', 'g', '0')`)
	bounded, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = busy.Run(bounded, db, claim(large), nil)
	if !driver.HasErrorPrefix(err, "BUSYGROUP") || errors.Is(err, redismarks.ErrNotRun) ||
		b.do(t, "GET", "n") != "1" {
		t.Errorf("an error that begins with BUSY: %v", err)
	}
	busy = redismarks.NewScript(`redis.call('INCR', 'n') error({err = 'BUSY with something'})`)
	_, err = busy.Run(bounded, db, claim(large), nil)
	if !driver.HasErrorPrefix(err, "BUSY ") || errors.Is(err, redismarks.ErrNotRun) ||
		b.do(t, "GET", "n") != "2" {
		t.Errorf("an error of the script that says BUSY: %v", err)
	}
}
