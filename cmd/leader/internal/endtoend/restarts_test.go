package endtoend

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
)

// load runs leaders that follow each other and write all the time through a guard, despite all
// errors.
type load struct {
	s     *stack
	g     *guard
	stop  context.CancelFunc
	ended sync.WaitGroup
	wrote chan string // "postgres" or "redis" for each acknowledged write; lossy
}

// The database defines the order of commits: the counter's row stays locked until the transaction
// ends, and a Redis script is atomic.
const (
	loadSQL = `with n as (update counter set n = n + 1 returning n)
		insert into history select n.n, $1 from n`
	loadLua = `return redis.call('RPUSH', KEYS[1], ARGV[1])`
)

func startLoad(s *stack, g *guard, leaders int) *load {
	s.t.Helper()
	s.sql(`create table counter (n bigint); insert into counter values (0);
	    create table history (n bigint primary key, token bigint);
	    grant all on counter, history to app`)
	ctx, stop := context.WithCancel(s.ctx)
	l := &load{s: s, g: g, stop: stop, wrote: make(chan string, 1)}
	for i := range leaders {
		l.ended.Go(func() { l.campaign(ctx, fmt.Sprintf("leader-%d", i)) })
	}
	s.t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.ended.Wait()
}

// campaign leads for a while, again and again. After each resignation it keeps writing for a
// moment, like a leader that has not noticed its deposition.
func (l *load) campaign(ctx context.Context, name string) {
	for ctx.Err() == nil {
		co, err := zookeeper.Open(ctx, l.s.coordinator, zookeeper.Options{SessionTimeout: tinySession})
		if err != nil {
			continue
		}
		term, err := co.Campaign(ctx, "orders", name)
		if err == nil {
			var writing sync.WaitGroup
			writing.Go(func() { l.write(ctx, term.Token(), 600*time.Millisecond) })
			tenure, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
			select {
			case <-tenure.Done():
			case <-term.Context().Done():
			}
			cancel()
			_ = term.Resign(context.WithoutCancel(ctx))
			writing.Wait()
		}
		_ = co.Close()
	}
}

func (l *load) write(ctx context.Context, token fence.Token, for_ time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, for_)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { l.writePostgres(ctx, token) })
	both.Go(func() { l.writeRedis(ctx, token) })
	both.Wait()
}

func (l *load) writePostgres(ctx context.Context, token fence.Token) {
	for ctx.Err() == nil {
		c, err := pgx.Connect(ctx, pgURL(l.g.pg, token))
		for err == nil {
			if _, err = c.Exec(ctx, loadSQL, int64(token)); err == nil {
				l.tell("postgres")
			}
		}
		if c != nil {
			_ = c.Close(context.WithoutCancel(ctx))
		}
	}
}

func (l *load) writeRedis(ctx context.Context, token fence.Token) {
	c := redisClient(l.g.redis, token)
	defer c.Close()
	script := redis.NewScript(loadLua)
	for ctx.Err() == nil {
		if script.Eval(ctx, c, []string{"history"}, token.String()).Err() == nil {
			l.tell("redis")
		}
	}
}

func (l *load) tell(what string) {
	select {
	case l.wrote <- what:
	default:
	}
}

// progress waits until both databases have accepted n more writes.
func (l *load) progress(n int) {
	l.s.t.Helper()
	seen := map[string]int{}
	for seen["postgres"] < n || seen["redis"] < n {
		select {
		case what := <-l.wrote:
			seen[what]++
		case <-time.After(60 * time.Second):
			l.s.t.Fatalf("no progress: %v", seen)
		}
	}
}

// check checks that tokens never go down in the order of commits, and that there were several
// terms.
func (l *load) check() {
	l.s.t.Helper()
	for name, tokens := range map[string][]string{
		"Postgres": l.s.column("select token::text from history order by n"),
		"Redis":    l.s.list("history"),
	} {
		var last int64
		terms := 0
		for i, text := range tokens {
			token, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				l.s.t.Fatal(err)
			}
			if token < last {
				l.s.t.Errorf("%s: write %d of %d has token %d, after %d", name, i, len(tokens), token, last)
			}
			if token != last {
				terms++
			}
			last = token
		}
		if terms < 3 {
			l.s.t.Errorf("%s: only %d terms in %d writes: the test shows nothing", name, terms, len(tokens))
		}
		l.s.t.Logf("%s: %d writes in %d terms", name, len(tokens), terms)
	}
}

func TestRestartedServersAcceptNoStaleWriteAndTheGuardRecovers(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	g := s.guard()
	l := startLoad(s, g, 3)
	l.progress(50)
	for _, server := range []struct {
		name    string
		restart func() error
	}{
		{"Postgres killed", func() error { return restart(s.ctx, s.pg.Kill, s.pg.Start) }},
		{"Redis killed", func() error { return restart(s.ctx, s.redis.Kill, s.redis.Start) }},
		{"ZooKeeper killed", func() error { return restart(s.ctx, s.zk.Kill, s.zk.Start) }},
		{"Postgres restarted", func() error { return restart(s.ctx, s.pg.Stop, s.pg.Start) }},
		{"Redis restarted", func() error { return restart(s.ctx, s.redis.Stop, s.redis.Start) }},
	} {
		if err := server.restart(); err != nil {
			t.Fatalf("%s: %v", server.name, err)
		}
		l.progress(50)
	}
	l.end()
	l.check()
}

func restart(ctx context.Context, down func() error, up func(context.Context) error) error {
	if err := down(); err != nil {
		return err
	}
	return up(ctx)
}

func TestTheSameLoadWithoutTheGuardHasStaleWrites(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	direct := &guard{s: s, pg: s.pg.Addr(), redis: s.redis.Addr()}
	l := startLoad(s, direct, 3)
	stale := func() bool {
		for _, tokens := range [][]string{
			s.column("select token::text from history order by n"), s.list("history"),
		} {
			last := int64(0)
			for _, text := range tokens {
				token, _ := strconv.ParseInt(text, 10, 64)
				if token < last {
					return true
				}
				last = token
			}
		}
		return false
	}
	for !stale() {
		if s.ctx.Err() != nil {
			t.Fatal("no stale write without the guard either: the check above shows nothing")
		}
		l.progress(20)
	}
}
