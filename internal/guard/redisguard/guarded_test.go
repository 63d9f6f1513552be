package redisguard

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
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

// guarded is a guard in front of a real Redis server.
type guarded struct {
	*guardtest.Guard
	t      *testing.T
	server *servers.Redis
	store  *redismarks.Store
	audit  *guard.Audit
}

// setup changes the defaults of before.
type setup struct {
	Options
	store redismarks.Options // for Open
	// the address that the guard dials; the server's when empty
	upstream string
	url      string                        // of the guard's own connections, instead
	wrap     func(marks.Store) marks.Store // the store that admission uses
	drain    time.Duration                 // 2 s when zero
	limit    func(*guard.Server)           // sets limits
	change   func(*Protocol)               // before it serves
}

// fresh starts a server for this test alone, and a guard for it.
func fresh(t *testing.T, args ...string) *guarded {
	t.Helper()
	return before(t, serverstest.Redis(t, servers.RedisOptions{Args: args}), setup{})
}

// before installs the store on a server and starts a guard for it.
func before(t *testing.T, server *servers.Redis, with setup) *guarded {
	t.Helper()
	must.Succeed(t, redismarks.Install(t.Context(), server.URL()))
	url := cmp.Or(with.url, "redis://"+cmp.Or(with.upstream, server.Addr()))
	s, err := redismarks.Open(t.Context(), url, with.store)
	must.Succeed(t, err)
	o := guardtest.Options{Drain: with.drain, Change: with.limit}
	var audit *guard.Audit
	g := guardtest.Start(t, o, func(log *slog.Logger, m *guard.Metrics) guard.Protocol {
		audit = guard.NewAudit(log, m, "redis")
		t.Cleanup(audit.Close)
		p := New(with.complete(s, audit.Event))
		if with.change != nil {
			with.change(p)
		}
		return p
	})
	return &guarded{Guard: g, t: t, server: server, store: s, audit: audit}
}

// complete fills in the store, and the admission with its store and events.
func (with setup) complete(s *redismarks.Store, events func(marks.Event)) Options {
	o := with.Options
	o.Store = s
	if o.Admission == nil {
		o.Admission = &marks.Admission{Authority: marks.Unverified{}}
	}
	o.Admission.Store, o.Admission.Notify = s, events
	if with.wrap != nil {
		o.Admission.Store = with.wrap(s)
	}
	return o
}

// driverTo makes a go-redis client for an address. It has longer timeouts than the driver's
// defaults; change may change more.
func driverTo(t *testing.T, addr string, change func(*driver.Options)) *driver.Client {
	const patience = 20 * time.Second
	o := &driver.Options{Addr: addr, MaxRetries: -1, DialTimeout: patience, ReadTimeout: patience,
		WriteTimeout: patience}
	if change != nil {
		change(o)
	}
	c := driver.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// leader makes a go-redis client through the guard under a token of orders.
func (g *guarded) leader(token fence.Token) *driver.Client {
	return driverTo(g.t, g.Addr, func(o *driver.Options) {
		o.OnConnect = func(ctx context.Context, c *driver.Conn) error {
			return c.Do(ctx, "FENCE", "orders", token.String()).Err()
		}
	})
}

// direct makes a go-redis client that bypasses the guard.
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
	must.Succeed(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute)) // for the whole test
	return &raw{t, c, bufio.NewReader(c)}
}

func (g *guarded) raw() *raw { g.t.Helper(); return dialRaw(g.t, g.Addr) }

func (r *raw) send(text string) {
	r.t.Helper()
	_, err := r.conn.Write([]byte(text))
	must.Succeed(r.t, err)
}

// reply reads one reply or push and returns its bytes; "" when the connection has ended.
func (r *raw) reply() string {
	r.t.Helper()
	var b []byte
	var f frames
	for at := 0; ; {
		c, err := r.r.ReadByte()
		if err != nil && disconnected(err) && len(b) == 0 {
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

// anyReply is for expect: any reply that is no error.
const anyReply = "(anyReply)"

// expect reads replies that must begin with these texts; "" stands for the end of the stream.
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

// says sends commands at once and expects the beginnings of their replies.
func (r *raw) says(commands string, replies ...string) {
	r.t.Helper()
	r.send(commands)
	r.expect(replies...)
}

// ended fails the test unless the stream ends here.
func (r *raw) ended() {
	r.t.Helper()
	rest, err := io.ReadAll(r.r)
	if len(bytes.TrimSpace(rest)) > 0 || err != nil && !disconnected(err) {
		r.t.Fatalf("not ended: %q, %v", rest, err)
	}
}

// fenced opens a session under a token of orders.
func (g *guarded) fenced(token int) *raw {
	g.t.Helper()
	r := g.raw()
	r.send(fmt.Sprintf("FENCE orders %d\r\n", token))
	r.expect("+OK\r\n")
	return r
}

// written returns the list "written".
func (g *guarded) written() []string {
	g.t.Helper()
	c := g.direct()
	defer c.Close()
	list, err := c.LRange(g.t.Context(), "written", 0, -1).Result()
	must.Succeed(g.t, err)
	return list
}

// recorded returns how many sessions the store has recorded.
func (g *guarded) recorded() int {
	g.t.Helper()
	marks, err := g.store.Marks(g.t.Context())
	must.Succeed(g.t, err)
	n := 0
	for _, m := range marks {
		n += m.Sessions
	}
	return n
}
