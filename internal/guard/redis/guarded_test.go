package redis

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// guarded is a Redis server with a guard before it.
type guarded struct {
	t       *testing.T
	server  *servers.Redis
	addr    string
	store   *redisstore.Store
	metrics *prometheus.Registry
	stop    func() // shuts the guard down, and returns when it has
}

// setup is what a test changes.
type setup struct {
	Options
	store    redisstore.Options
	upstream string                        // the server's address, where it is not its own
	wrap     func(marks.Store) marks.Store // what admission works with
	drain    time.Duration
	limit    func(*guard.Server) // sets limits
}

// fresh is a server of the test's own with a guard.
func fresh(t *testing.T, args ...string) *guarded {
	t.Helper()
	return before(t, serverstest.Redis(t, servers.RedisOptions{Args: args}), setup{})
}

// before puts a guard before a server, and installs the store.
func before(t *testing.T, server *servers.Redis, with setup) *guarded {
	t.Helper()
	if err := redisstore.Install(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.Open(t.Context(), "redis://"+cmp.Or(with.upstream, server.Addr()), with.store)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	registry := prometheus.NewRegistry()
	metrics := guard.NewMetrics(registry)
	o := with.Options
	o.Store = s
	if o.Admission == nil {
		o.Admission = &marks.Admission{Authority: marks.Unverified{}}
	}
	o.Admission.Store, o.Admission.Notify = s, guard.Events(log, metrics, "redis")
	if with.wrap != nil {
		o.Admission.Store = with.wrap(s)
	}
	if with.drain == 0 {
		with.drain = 2 * time.Second
	}
	p := New(o)
	srv := &guard.Server{Protocol: p, Listener: l, Log: log, Metrics: metrics, DrainTimeout: with.drain}
	if with.limit != nil {
		with.limit(srv)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	g := &guarded{t: t, server: server, addr: l.Addr().String(), store: s, metrics: registry}
	g.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		p.Close()
	})
	t.Cleanup(g.stop)
	return g
}

// driverTo is go-redis with its defaults but for a little more patience, at an address, changed by change.
func driverTo(t *testing.T, addr string, change func(*driver.Options)) *driver.Client {
	const patience = 20 * time.Second
	o := &driver.Options{Addr: addr, MaxRetries: -1, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience}
	if change != nil {
		change(o)
	}
	c := driver.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// leader is go-redis through the guard under a token of orders.
func (g *guarded) leader(token fence.Token) *driver.Client {
	return driverTo(g.t, g.addr, func(o *driver.Options) {
		o.OnConnect = func(ctx context.Context, c *driver.Conn) error {
			return c.Do(ctx, "FENCE", "orders", token.String()).Err()
		}
	})
}

// direct is go-redis round the guard.
func (g *guarded) direct() *driver.Client { return driverTo(g.t, g.server.Addr(), nil) }

// raw is a client that sends and reads bytes.
type raw struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dialRaw(t *testing.T, addr string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute)) // of the whole test
	return &raw{t, c, bufio.NewReader(c)}
}

func (g *guarded) raw() *raw { g.t.Helper(); return dialRaw(g.t, g.addr) }

func (r *raw) send(text string) {
	r.t.Helper()
	if _, err := r.conn.Write([]byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

// reply reads one reply, or push, as it is on the wire; "" when the connection has ended.
func (r *raw) reply() string {
	r.t.Helper()
	var b []byte
	var f frames
	for at := 0; ; {
		c, err := r.r.ReadByte()
		if err != nil && isClosed(err) && len(b) == 0 {
			return ""
		}
		if err != nil {
			r.t.Fatalf("after %q: %v", b, err)
		}
		b = append(b, c)
		n, ended, err := f.scan(b[at:])
		if err != nil {
			r.t.Fatalf("%q: %v", b, err)
		}
		if at += n; ended {
			return string(b)
		}
	}
}

// anyReply is a reply of which only the place matters.
const anyReply = "(anyReply)"

// expect reads replies and compares them by their beginnings; "" is the end of the stream.
func (r *raw) expect(wants ...string) {
	r.t.Helper()
	for _, want := range wants {
		got := r.reply()
		if want == anyReply && got != "" && got[0] != '-' {
			continue
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			r.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// ended expects the end of the stream.
func (r *raw) ended() {
	r.t.Helper()
	rest, err := io.ReadAll(r.r)
	if len(bytes.TrimSpace(rest)) > 0 || err != nil && !isClosed(err) {
		r.t.Fatalf("not ended: %q, %v", rest, err)
	}
}

// fenced is a raw client that is admitted.
func (g *guarded) fenced(token int) *raw {
	g.t.Helper()
	r := g.raw()
	r.send(fmt.Sprintf("FENCE orders %d\r\n", token))
	r.expect("+OK\r\n")
	return r
}

// written is what the list "written" holds.
func (g *guarded) written() []string {
	g.t.Helper()
	c := g.direct()
	defer c.Close()
	list, err := c.LRange(g.t.Context(), "written", 0, -1).Result()
	if err != nil {
		g.t.Fatal(err)
	}
	return list
}

func (g *guarded) recorded() int {
	g.t.Helper()
	marks, err := g.store.Marks(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	n := 0
	for _, m := range marks {
		n += m.Sessions
	}
	return n
}
