package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// The property: per resource, in the order in which Redis took them, the tokens of the writes never go down. The order
// is the list's own.

const (
	leaders = 8   // goroutines
	moves   = 120 // of each
)

// histories is one run of the property.
type histories struct {
	t       *testing.T
	server  *servers.Redis
	connect func(ctx context.Context, r *rand.Rand, resource string, token fence.Token) (*driver.Client, error)
	fault   func(r *rand.Rand) // may be nil

	mu     sync.Mutex
	newest map[string]fence.Token
	kept   []*lease // sessions that somebody may write on later, whatever has happened in the meantime
	writes int
}

// lease is one connection and what it believes.
type lease struct {
	client   *driver.Client
	conn     *driver.Conn
	resource string
	token    fence.Token
	queued   bool // a write waits in MULTI
}

func (l *lease) close() { _ = l.conn.Close(); _ = l.client.Close() }

func TestWritesThroughGuardsNeverGoBackToAnOlderToken(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	fleet := &fleet{t: t, server: server}
	for range 3 {
		fleet.all = append(fleet.all, fleet.start())
	}
	h := &histories{t: t, server: server, connect: fleet.connect, fault: fleet.replaceOne}
	h.play()
	if bad := h.violations(); len(bad) > 0 {
		t.Errorf("%d writes of deposed leaders, such as %s", len(bad), bad[0])
	}
}

// The same without a guard: were no violation found here, the test above would prove nothing.
func TestWithoutAGuardTheSameWorkFindsStaleWrites(t *testing.T) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	h := &histories{t: t, server: server, connect: func(_ context.Context, _ *rand.Rand, _ string, _ fence.Token) (*driver.Client, error) {
		return driver.NewClient(&driver.Options{Addr: server.Addr(), MaxRetries: -1}), nil
	}}
	h.play()
	bad := h.violations()
	t.Logf("%d stale writes", len(bad))
	if len(bad) == 0 {
		t.Error("no stale write was found where nothing prevents them")
	}
}

// fleet is several guards of one server, which are stopped hard and replaced now and then.
type fleet struct {
	t      *testing.T
	server *servers.Redis
	mu     sync.Mutex
	all    []*guarded
}

func (f *fleet) start() *guarded {
	return before(f.t, f.server, setup{drain: time.Nanosecond})
}

func (f *fleet) connect(_ context.Context, r *rand.Rand, resource string, token fence.Token) (*driver.Client, error) {
	f.mu.Lock()
	g := f.all[r.IntN(len(f.all))]
	f.mu.Unlock()
	return driver.NewClient(&driver.Options{
		Addr: g.addr, MaxRetries: -1, ClientName: fmt.Sprintf("fence.%s=%s", resource, token),
	}), nil
}

func (f *fleet) replaceOne(r *rand.Rand) {
	fresh := f.start()
	f.mu.Lock()
	i := r.IntN(len(f.all))
	old := f.all[i]
	f.all[i] = fresh
	f.mu.Unlock()
	old.stop()
}

// seed is RINGFENCE_SEED, or new.
func seed(t *testing.T) uint64 {
	s, err := strconv.ParseUint(os.Getenv("RINGFENCE_SEED"), 10, 64)
	if err != nil {
		s = rand.Uint64()
	}
	t.Logf("to make the same moves again: RINGFENCE_SEED=%d", s)
	return s
}

func (h *histories) play() {
	h.t.Helper()
	h.newest = map[string]fence.Token{"orders": 1, "stock": 1}
	s := seed(h.t)
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range leaders {
		r := rand.New(rand.NewPCG(s, uint64(i)))
		all.Go(func() {
			for range moves {
				h.move(ctx, r)
			}
		})
	}
	all.Wait()
	for _, l := range h.kept {
		l.close()
	}
	if h.writes < leaders*moves/4 {
		h.t.Errorf("only %d writes: too few to prove anything", h.writes)
	}
}

// move is one thing that somebody does: open a session under a token and write, or write on one that was kept.
func (h *histories) move(ctx context.Context, r *rand.Rand) {
	l := h.take(r)
	if l == nil {
		var err error
		if l, err = h.elect(ctx, r); err != nil {
			return
		}
	}
	for range 1 + r.IntN(3) {
		if h.write(ctx, r, l) != nil {
			l.close()
			return
		}
	}
	if r.IntN(20) < 14 {
		h.keep(l)
	} else {
		l.close()
	}
	if h.fault != nil && r.IntN(60) == 0 {
		h.fault(r)
	}
}

// elect opens a session under the newest token, a newer one, or one that is out of date.
func (h *histories) elect(ctx context.Context, r *rand.Rand) (*lease, error) {
	resource := []string{"orders", "stock"}[r.IntN(2)]
	h.mu.Lock()
	if r.IntN(4) == 0 {
		h.newest[resource] += fence.Token(1 + r.IntN(3))
	}
	token := h.newest[resource]
	h.mu.Unlock()
	if r.IntN(3) == 0 {
		token = max(1, token-fence.Token(r.IntN(5)))
	}
	client, err := h.connect(ctx, r, resource, token)
	if err != nil {
		return nil, err
	}
	l := &lease{client: client, conn: client.Conn(), resource: resource, token: token}
	if err := l.conn.Ping(ctx).Err(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// write adds one entry: a command, a pipeline, a script, or a transaction whose EXEC may come much later.
func (h *histories) write(ctx context.Context, r *rand.Rand, l *lease) (err error) {
	if l.queued {
		l.queued = false
		return l.conn.Do(ctx, "EXEC").Err()
	}
	key, value := "history:"+l.resource, l.token.String()
	switch r.IntN(4) {
	case 0:
		err = l.conn.RPush(ctx, key, value).Err()
	case 1:
		_, err = l.conn.Pipelined(ctx, func(p driver.Pipeliner) error {
			p.RPush(ctx, key, value)
			p.RPush(ctx, key, value)
			return nil
		})
	case 2:
		err = l.conn.Eval(ctx, "return redis.call('RPUSH', KEYS[1], ARGV[1])", []string{key}, value).Err()
	default:
		if err = l.conn.Do(ctx, "MULTI").Err(); err == nil {
			err = l.conn.Do(ctx, "RPUSH", key, value).Err()
		}
		l.queued = err == nil
	}
	if err == nil {
		h.mu.Lock()
		h.writes++
		h.mu.Unlock()
	}
	return err
}

func (h *histories) keep(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, l)
}

// take is a session that was kept, or nil.
func (h *histories) take(r *rand.Rand) *lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == 0 || len(h.kept) < 12 && r.IntN(2) == 0 {
		return nil
	}
	i := r.IntN(len(h.kept))
	l := h.kept[i]
	h.kept[i] = h.kept[len(h.kept)-1]
	h.kept = h.kept[:len(h.kept)-1]
	return l
}

// violations are the writes that follow a write under a higher token.
func (h *histories) violations() (bad []string) {
	h.t.Helper()
	c := driver.NewClient(&driver.Options{Addr: h.server.Addr()})
	defer c.Close()
	for _, resource := range []string{"orders", "stock"} {
		list, err := c.LRange(h.t.Context(), "history:"+resource, 0, -1).Result()
		if err != nil {
			h.t.Fatal(err)
		}
		highest := 0
		for i, text := range list {
			token, err := strconv.Atoi(text)
			if err != nil {
				h.t.Fatal(err)
			}
			if token < highest {
				bad = append(bad, fmt.Sprintf("%s: write %d under token %d after %d", resource, i, token, highest))
			}
			highest = max(highest, token)
		}
	}
	return bad
}
