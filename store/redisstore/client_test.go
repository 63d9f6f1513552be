package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/store/redisstore"
)

func TestEveryConnectionOfATermsClientCarriesItsToken(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		b, addr := guarded(t)
		term, _ := term(t, large)
		greeted := 0
		db := termClient(t, term, addr, func(o *driver.Options) {
			o.Protocol, o.ClientName = protocol, "mine"
			o.OnConnect = func(context.Context, *driver.Conn) error { greeted++; return nil }
		})
		must.Succeed(t, db.Set(t.Context(), "a", "1", 0).Err())
		conn := db.Conn() // a second connection
		if v, err := conn.Get(t.Context(), "a").Result(); v != "1" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		sub := db.Subscribe(t.Context(), "channel")
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Error(err)
		}
		if err := db.Get(t.Context(), "none").Err(); err != driver.Nil {
			t.Errorf("a missing value: %v", err)
		}
		names := b.names(t)
		for _, name := range names {
			if name != "fence.orders."+large.String() {
				t.Errorf("a connection is called %s", name)
			}
		}
		if len(names) < 2 || greeted < 2 {
			t.Errorf("%d connections have the token, OnConnect was called for %d",
				len(names), greeted)
		}
		_, _ = conn.Close(), sub.Close()
	}
}

func TestWithoutAGuardATermsClientDoesNotConnect(t *testing.T) {
	t.Parallel()
	b := open(t, serverstest.Redis(t, servers.RedisOptions{}))
	term, _ := term(t, 5)
	err := termClient(t, term, b.server.Addr(), nil).Set(t.Context(), "a", "1", 0).Err()
	if _, setup := errors.AsType[*fence.SetupError](err); !setup {
		t.Errorf("got %v", err)
	}
	if n := b.do(t, "EXISTS", "a"); n != int64(0) {
		t.Error("the value was written")
	}
}

// The older leader's client writes all the time. When a newer leader is admitted, the client is
// told so, its term ends, and none of its later writes is stored.
func TestADeposedTermsClientIsToldAndWritesNothingMore(t *testing.T) {
	t.Parallel()
	b, addr := guarded(t)
	oldTerm, _ := term(t, 5)
	old := termClient(t, oldTerm, addr, nil)
	ended := make(chan error, 1)
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		var err error
		for start := time.Now(); err == nil && time.Since(start) < time.Minute; {
			err = old.RPush(context.WithoutCancel(t.Context()), "written", "old").Err()
		}
		ended <- err
	})
	until(t, "the older leader writes", func() bool {
		return b.admin.LLen(t.Context(), "written").Val() >= 20
	})
	newTerm, _ := term(t, 6)
	fresh := termClient(t, newTerm, addr, nil)
	must.Succeed(t, fresh.RPush(t.Context(), "written", "new").Err())
	if err := <-ended; !errors.Is(err, fence.ErrStale) || !errors.Is(err, fence.ErrLost) {
		t.Errorf("the older leader got %v", err)
	}
	if cause := context.Cause(oldTerm.Context()); !errors.Is(cause, fence.ErrSuperseded) ||
		!errors.Is(cause, fence.ErrStale) {
		t.Errorf("its term ended because of %v", cause)
	}
	pipe := old.Pipeline()
	first := pipe.RPush(t.Context(), "written", "late")
	_, err := pipe.Exec(t.Context())
	for _, err := range []error{err, first.Err(), old.RPush(t.Context(), "written", "late").Err(),
		put(t, old, claim(5), "late")} {
		if !errors.Is(err, fence.ErrSuperseded) || !errors.Is(err, fence.ErrStale) ||
			!errors.Is(err, redisstore.ErrNotRun) {
			t.Errorf("after the end of the term: %v", err)
		}
	}
	if list := b.written(t); list[len(list)-1] != "new" {
		t.Error("an older leader wrote after a newer one")
	}
}

func TestATermsClientSendsNoCommandTwice(t *testing.T) {
	t.Parallel()
	b, addr := guarded(t)
	term, _ := term(t, 5)
	w := serverstest.NewRelay(t, addr)
	db := termClient(t, term, w.Addr(), func(o *driver.Options) { o.MaxRetries = 3 })
	must.Succeed(t, db.Incr(t.Context(), "n").Err())
	w.LoseReply()
	if err := db.Incr(t.Context(), "n").Err(); err == nil || errors.Is(err, redisstore.ErrNotRun) {
		t.Errorf("the error for a lost answer: %v", err)
	}
	if n := b.do(t, "GET", "n"); n != "2" {
		t.Errorf("INCR was run %v times in all, want 2", n)
	}
}

// The guard's refusal comes in place of the answer to a running command, which may have been
// executed.
func TestTheOutcomeOfARunningCommandIsUnknownWhenANewerLeaderIsAdmitted(t *testing.T) {
	t.Parallel()
	b, addr := guarded(t)
	oldTerm, _ := term(t, 5)
	old := termClient(t, oldTerm, addr, nil)
	blocked := make(chan error, 1)
	go func() {
		blocked <- old.BLPop(context.WithoutCancel(t.Context()), time.Minute, "queue").Err()
	}()
	until(t, "the command waits", func() bool {
		return strings.Contains(b.do(t, "CLIENT", "LIST").(string), "cmd=blpop")
	})
	newTerm, _ := term(t, 6)
	must.Succeed(t, termClient(t, newTerm, addr, nil).Ping(t.Context()).Err())
	if err := <-blocked; !errors.Is(err, redisstore.ErrUnknown) ||
		errors.Is(err, redisstore.ErrNotRun) ||
		!errors.Is(err, fence.ErrStale) {
		t.Errorf("got %v", err)
	}
}

// A plain driver cannot distinguish a guard's answer to a command from its answer to a new
// connection.
func TestAPlainClientsOutcomeIsUnknownAfterAStaleAnswer(t *testing.T) {
	t.Parallel()
	b, addr := guarded(t)
	db := b.client(t, func(o *driver.Options) {
		o.Addr = addr
		o.OnConnect = func(ctx context.Context, c *driver.Conn) error {
			return c.Do(ctx, "FENCE", "orders", "5").Err()
		}
	})
	must.Succeed(t, put(t, db, claim(5), "old"))
	newer, _ := term(t, 6)
	fresh := termClient(t, newer, addr, nil)
	must.Succeed(t, fresh.RPush(t.Context(), "written", "new").Err())
	if err := put(t, db, claim(5), "late"); !errors.Is(err, fence.ErrStale) ||
		!errors.Is(err, redisstore.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if list := b.written(t); list[len(list)-1] != "new" {
		t.Error("an older leader wrote after a newer one")
	}
}

// A term may begin after a newer one has been admitted.
func TestTheClientOfAStaleTermIsRefusedWhenItConnects(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		b, addr := guarded(t)
		newer, _ := term(t, 6)
		must.Succeed(t, termClient(t, newer, addr, nil).Ping(t.Context()).Err())
		late, _ := term(t, 5)
		db := termClient(t, late, addr, func(o *driver.Options) { o.Protocol = protocol })
		err := db.Set(t.Context(), "a", "late", 0).Err()
		if !errors.Is(err, fence.ErrStale) || !errors.Is(err, redisstore.ErrNotRun) ||
			errors.Is(err, redisstore.ErrUnknown) {
			t.Errorf("RESP%d: %v", protocol, err)
		}
		if late.State() != fence.Lost ||
			!errors.Is(context.Cause(late.Context()), fence.ErrSuperseded) {
			t.Errorf("RESP%d: the term is not superseded", protocol)
		}
		if n := b.do(t, "EXISTS", "a"); n != int64(0) {
			t.Error("the value was written")
		}
	}
}

func TestOtherRefusalsDoNotEndATerm(t *testing.T) {
	t.Parallel()
	_, addr := guarded(t)
	term, _ := term(t, 5)
	db := termClient(t, term, addr, nil)
	if err := db.FlushAll(t.Context()).Err(); !errors.Is(err, fence.ErrNotAllowed) {
		t.Errorf("got %v", err)
	}
	must.Succeed(t, db.LPush(t.Context(), "a", 1).Err())
	if err := db.Incr(t.Context(), "a").Err(); !driver.HasErrorPrefix(err, "WRONGTYPE") ||
		errors.Is(err, redisstore.ErrUnknown) {
		t.Errorf("an error of Redis: %v", err)
	}
	if term.State() != fence.Active {
		t.Error("the term is over")
	}
}

// No guard takes part in this: the connections end because the term ends.
func TestConnectionsEndWithTheirTerm(t *testing.T) {
	t.Parallel()
	b, addr := guarded(t)
	term, keeper := term(t, 5)
	dials := make(chan net.Conn, 10)
	db := termClient(t, term, addr, func(o *driver.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			dials <- c
			return c, err
		}
	})
	blocked := make(chan error, 1)
	go func() {
		blocked <- db.BLPop(context.WithoutCancel(t.Context()), time.Minute, "queue").Err()
	}()
	until(t, "the command waits", func() bool {
		return strings.Contains(b.do(t, "CLIENT", "LIST").(string), "cmd=blpop")
	})
	// a second connection, which stays idle
	must.Succeed(t, db.Set(t.Context(), "a", "1", 0).Err())
	keeper.Lose(fence.ErrDeposed)
	if err := <-blocked; !errors.Is(err, fence.ErrDeposed) || !errors.Is(err, redisstore.ErrUnknown) {
		t.Errorf("the running command: %v", err)
	}
	until(t, "the server has closed the connections", func() bool { return len(b.names(t)) == 0 })
	dialed := len(dials)
	if err := db.Set(t.Context(), "a", "late", 0).Err(); !errors.Is(err, fence.ErrDeposed) ||
		!errors.Is(err, redisstore.ErrNotRun) {
		t.Errorf("after the end: %v", err)
	}
	sub := db.Subscribe(t.Context(), "channel")
	if _, err := sub.Receive(t.Context()); !errors.Is(err, fence.ErrDeposed) {
		t.Errorf("a subscription after the end: %v", err)
	}
	_ = sub.Close()
	if v := b.do(t, "GET", "a"); v != "1" || len(dials) != dialed {
		t.Errorf("a is %v, %d connections were opened after the end", v, len(dials)-dialed)
	}
	_, _ = db.Close(), db.Close()
}

// The term ends a moment before its connections are cut.
func TestNothingIsSentAfterTheEndOfTheTermOnAConnectionThatIsStillOpen(t *testing.T) {
	t.Parallel()
	b, addr := guarded(t)
	term, keeper := term(t, 5)
	cut := make(chan struct{})
	db := termClient(t, term, addr, func(o *driver.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return uncut{c, cut}, err
		}
	})
	must.Succeed(t, db.Set(t.Context(), "a", "1", 0).Err())
	keeper.Lose(fence.ErrDeposed)
	pipe := db.Pipeline()
	late := pipe.Set(t.Context(), "a", "late", 0)
	_, err := pipe.Exec(t.Context())
	for _, err := range []error{db.Set(t.Context(), "a", "late", 0).Err(), late.Err(), err} {
		if !errors.Is(err, fence.ErrDeposed) || !errors.Is(err, redisstore.ErrNotRun) {
			t.Errorf("got %v", err)
		}
	}
	close(cut)
	if v := b.do(t, "GET", "a"); v != "1" {
		t.Errorf("a is %v", v)
	}
}

// uncut is a connection whose Close waits for the test.
type uncut struct {
	net.Conn
	cut <-chan struct{}
}

func (u uncut) Close() error {
	<-u.cut
	return u.Conn.Close()
}
