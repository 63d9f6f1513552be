package endtoend

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// The benchmarks compare a guard process with the database alone and with PgBouncer, in one run.
// Compare results within a run, never between machines. There is no coordinator, so a token is only
// a number.

// benched starts a guard in front of a Postgres and a Redis with room for a thousand sessions.
func benched(b *testing.B) (*stack, *guard) {
	b.Helper()
	s := &stack{
		t: b, ctx: context.Background(), unverified: true,
		pg: serverstest.Postgres(b, servers.PostgresOptions{
			Settings: map[string]string{"max_connections": "1100"},
		}),
		redis: serverstest.Redis(b, servers.RedisOptions{Args: []string{"--maxclients", "2000"}}),
	}
	s.sql(`create role guard login; create role app login`)
	if out, err := s.program("guard", "install").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return s, s.guard()
}

// BenchmarkTakeOver measures how long a new leader waits: for its first session's login, the end of
// every session of its predecessor, and admission. Those sessions are open and idle.
func BenchmarkTakeOver(b *testing.B) {
	_, g := benched(b)
	token := fence.Token(1)
	for _, database := range []struct {
		name string
		open func(fence.Token) (end func(), err error)
	}{
		{"postgres", func(t fence.Token) (func(), error) { return openPostgres(g.pg, t) }},
		{"redis", func(t fence.Token) (func(), error) { return openRedis(g.redis, t) }},
	} {
		for _, sessions := range []int{0, 1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/sessions=%d", database.name, sessions), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					older := many(b, sessions, func() (func(), error) { return database.open(token) })
					token++
					b.StartTimer()
					end, err := database.open(token)
					b.StopTimer()
					if err != nil {
						b.Fatal(err)
					}
					for _, end := range append(older, end) {
						end()
					}
					b.StartTimer()
				}
			})
		}
	}
}

func openPostgres(address string, token fence.Token) (end func(), err error) {
	c, err := pgx.Connect(context.Background(), pgURL(address, token))
	if err != nil {
		return nil, err
	}
	return func() { _ = c.Close(context.Background()) }, nil
}

func openRedis(address string, token fence.Token) (end func(), err error) {
	c := redisClient(address, token)
	return func() { _ = c.Close() }, c.Ping(context.Background()).Err()
}

// many opens sessions, several at a time.
func many(b *testing.B, n int, open func() (func(), error)) []func() {
	b.Helper()
	all := make([]func(), n)
	errs := make([]error, n)
	var wait sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			all[i], errs[i] = open()
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return all
}

// BenchmarkQuery measures one round trip of one client.
func BenchmarkQuery(b *testing.B) {
	s, g := benched(b)
	bouncer := serverstest.PgBouncer(b, s.pg)
	for _, way := range []struct{ name, url string }{
		{"direct", s.pg.URL("app", "postgres")}, {"guard", pgURL(g.pg, 1)},
		{"pgbouncer", bouncer.URL("app", "postgres")},
	} {
		b.Run("postgres/"+way.name, func(b *testing.B) {
			c, err := pgx.Connect(b.Context(), way.url)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(context.Background())
			for b.Loop() {
				if _, err := c.Exec(context.Background(), "select 1"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, way := range []struct {
		name   string
		client *redis.Client
	}{
		{"direct", redis.NewClient(&redis.Options{Addr: s.redis.Addr()})},
		{"guard", redisClient(g.redis, 1)},
	} {
		b.Run("redis/"+way.name, func(b *testing.B) {
			defer way.client.Close()
			for b.Loop() {
				if err := way.client.Set(context.Background(), "k", "v", 0).Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen measures opening and closing a session under an existing mark.
func BenchmarkOpen(b *testing.B) {
	s, g := benched(b)
	for _, way := range []struct{ name, url string }{
		{"direct", s.pg.URL("app", "postgres")}, {"guard", pgURL(g.pg, 1)},
	} {
		b.Run("postgres/"+way.name, func(b *testing.B) {
			for b.Loop() {
				c, err := pgx.Connect(context.Background(), way.url)
				if err != nil {
					b.Fatal(err)
				}
				_ = c.Close(context.Background())
			}
		})
	}
}

// BenchmarkIdle reports a fresh guard's memory per session for its first 1,000 idle sessions,
// without kernel buffers.
func BenchmarkIdle(b *testing.B) {
	s, g := benched(b)
	const sessions = 1000
	before := s.resident(g)
	all := many(b, sessions, func() (func(), error) { return openPostgres(g.pg, 1) })
	time.Sleep(2 * time.Second) // for the garbage of the logins to be collected
	each := float64(s.resident(g)-before) / sessions
	for b.Loop() {
	}
	b.ReportMetric(each, "B/session")
	b.ReportMetric(0, "ns/op") // nothing is timed
	for _, end := range all {
		end()
	}
}

// resident returns the guard's memory in bytes (Linux).
func (s *stack) resident(g *guard) int {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.cmd.Process.Pid))
	if err != nil {
		s.t.Skip(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
