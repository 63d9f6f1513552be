package endtoend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
)

// traffic is what one leader writes through its guards while they are restarted. It repeats what an
// error says has not landed, and keeps an account of every write. A write that landed all the same
// is found by its number: it is there twice, or without an acknowledgement.
type traffic struct {
	s     *stack
	token fence.Token
	pg    []string // the guards' addresses; a client uses the first that answers
	redis []string

	next  atomic.Int64 // number of a write
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu    sync.Mutex
	kinds map[string]*account
	wrote *sync.Cond
}

// account is what became of the writes of one kind.
type account struct {
	done      []string // numbers of those that were acknowledged
	reconnect int      // a connection was opened again before anything of a write had been sent
	repeated  int      // an error said that the write has not landed
	refused   int      // nobody listened
	failed    []error  // anything else
}

func (s *stack) traffic(token fence.Token, guards ...*guard) *traffic {
	s.t.Helper()
	s.sql(`create table pairs (n bigint, half int, primary key (n, half));
	    create table singles (n bigint primary key);
	    grant all on pairs, singles to app`)
	ctx, stop := context.WithCancel(s.ctx)
	t := &traffic{s: s, token: token, stop: stop, kinds: make(map[string]*account)}
	t.wrote = sync.NewCond(&t.mu)
	for _, g := range guards {
		t.pg, t.redis = append(t.pg, g.pg), append(t.redis, g.redis)
	}
	pool := t.pool()
	for _, kind := range []struct {
		name    string
		workers int
		work    func(ctx context.Context, a *account)
	}{
		{"transactions", 4, func(ctx context.Context, a *account) { t.transaction(ctx, pool, a) }},
		{"statements", 2, func(ctx context.Context, a *account) { t.statement(ctx, pool, a) }},
		{"MULTI", 2, t.redisWorker("multi", multi)},
		{"commands", 2, t.redisWorker("single", single)},
	} {
		a := &account{}
		t.kinds[kind.name] = a
		for range kind.workers {
			t.ended.Go(func() {
				for ctx.Err() == nil {
					kind.work(context.WithoutCancel(ctx), a)
				}
			})
		}
	}
	s.t.Cleanup(func() { t.end(); pool.Close() })
	return t
}

func (t *traffic) end() {
	t.stop()
	t.ended.Wait()
}

// note changes an account.
func (t *traffic) note(a *account, change func(*account)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(a)
	t.wrote.Broadcast()
}

func (t *traffic) fail(a *account, what string, n int64, err error) {
	t.note(a, func(a *account) {
		a.failed = append(a.failed, fmt.Errorf("%s of write %d: %w", what, n, err))
	})
}

// progress waits until n more writes of each kind were acknowledged.
func (t *traffic) progress(n int) {
	t.s.t.Helper()
	stop := context.AfterFunc(t.s.ctx, t.wrote.Broadcast)
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	want := make(map[string]int)
	for name, a := range t.kinds {
		want[name] = len(a.done) + n
	}
	for name, a := range t.kinds {
		for len(a.done) < want[name] {
			if t.s.ctx.Err() != nil || len(a.failed) > 0 {
				t.s.t.Fatalf("no progress of %s: %v", name, a.failed)
			}
			t.wrote.Wait()
		}
	}
}

// pool is a pool whose clients know every guard, as libpq's list of hosts.
func (t *traffic) pool() *pgxpool.Pool {
	t.s.t.Helper()
	c, err := pgxpool.ParseConfig(pgURL(strings.Join(t.pg, ","), t.token))
	must.Succeed(t.s.t, err)
	c.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.s.ctx, c)
	must.Succeed(t.s.t, err)
	return pool
}

// acquire returns a connection that was idle, or a new one; nil if there is none now.
func (t *traffic) acquire(ctx context.Context, pool *pgxpool.Pool, a *account) *pgxpool.Conn {
	c, err := pool.Acquire(ctx)
	if err == nil {
		return c
	}
	t.note(a, func(a *account) { a.reconnect++; a.refused += refusals(err, len(t.pg)) })
	return nil
}

// refusals returns 1 if nobody listened at any address.
func refusals(err error, addresses int) int {
	if strings.Count(err.Error(), "connection refused") >= addresses {
		return 1
	}
	return 0
}

// didNotLand reports whether an error in place of an answer says that nothing was executed, or
// nothing was sent.
func didNotLand(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "57P01" &&
		pg.Detail == "nothing was executed after the last answer" || pgconn.SafeToRetry(err)
}

// transaction writes two rows.
func (t *traffic) transaction(ctx context.Context, pool *pgxpool.Pool, a *account) {
	c := t.acquire(ctx, pool, a)
	if c == nil {
		return
	}
	defer c.Release()
	n := t.next.Add(1)
	tx, err := c.Begin(ctx)
	if didNotLand(err) {
		t.note(a, func(a *account) { a.reconnect++ })
		return
	}
	for half := 0; err == nil && half < 2; half++ {
		_, err = tx.Exec(ctx, "insert into pairs values ($1, $2)", n, half)
	}
	if err != nil {
		t.fail(a, "a statement", n, err)
		return
	}
	if err := tx.Commit(ctx); err != nil {
		t.fail(a, "the commit", n, err)
		return
	}
	t.note(a, func(a *account) { a.done = append(a.done, strconv.FormatInt(n, 10)) })
}

// statement writes a row outside of a transaction, again until that is acknowledged.
func (t *traffic) statement(ctx context.Context, pool *pgxpool.Pool, a *account) {
	n := t.next.Add(1)
	for {
		c := t.acquire(ctx, pool, a)
		if c == nil {
			continue
		}
		_, err := c.Exec(ctx, "insert into singles values ($1)", pgx.QueryExecModeSimpleProtocol, n)
		c.Release()
		switch {
		case err == nil:
			t.note(a, func(a *account) { a.done = append(a.done, strconv.FormatInt(n, 10)) })
			return
		case !didNotLand(err):
			t.fail(a, "the statement", n, err)
			return
		}
		t.note(a, func(a *account) { a.repeated++ })
	}
}

func multi(ctx context.Context, c *redis.Client, n int64) error {
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.RPush(ctx, "multi", n)
		p.RPush(ctx, "multi", n)
		return nil
	})
	return err
}

func single(ctx context.Context, c *redis.Client, n int64) error {
	return c.RPush(ctx, "single", n).Err()
}

// redisWorker writes with one connection at a time, each number again until that is acknowledged.
func (t *traffic) redisWorker(
	key string, write func(context.Context, *redis.Client, int64) error,
) func(context.Context, *account) {
	return func(ctx context.Context, a *account) {
		var sent atomic.Bool // a byte of the present write
		c := redis.NewClient(&redis.Options{
			ClientName: fmt.Sprintf("fence.orders=%s", t.token), PoolSize: 1, MaxRetries: -1,
			DialTimeout: 30 * time.Second, ReadTimeout: 30 * time.Second,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialFirst(ctx, t.redis, watched{sent: &sent, key: key})
			},
		})
		defer c.Close()
		for range 200 {
			n := t.next.Add(1)
			for {
				sent.Store(false)
				err := write(ctx, c, n)
				if err == nil {
					t.note(a, func(a *account) { a.done = append(a.done, strconv.FormatInt(n, 10)) })
					break
				}
				switch {
				case strings.Contains(err.Error(), "this command was not executed"):
					t.note(a, func(a *account) { a.repeated++ })
				case !sent.Load():
					t.note(a, func(a *account) { a.reconnect++; a.refused += refusals(err, len(t.redis)) })
				default:
					t.fail(a, "the write", n, err)
					return
				}
			}
		}
	}
}

// dialFirst dials the first address that answers.
func dialFirst(ctx context.Context, addresses []string, w watched) (net.Conn, error) {
	var all []error
	for _, address := range addresses {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			w.Conn = c
			return w, nil
		}
		all = append(all, err)
	}
	return nil, errors.Join(all...)
}

// watched is a connection that notes when a command with a key is sent.
type watched struct {
	net.Conn
	sent *atomic.Bool
	key  string
}

func (w watched) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(w.key)) {
		w.sent.Store(true)
	}
	return w.Conn.Write(b)
}

// SyscallConn lets the driver see whether the connection has ended while it was idle.
func (w watched) SyscallConn() (syscall.RawConn, error) {
	return w.Conn.(*net.TCPConn).SyscallConn()
}

// check compares the account with what the databases hold, and prints it.
func (t *traffic) check() {
	t.s.t.Helper()
	t.end()
	held := map[string][]string{
		"transactions": t.s.column("select n::text from pairs order by n, half"),
		"statements":   t.s.column("select n::text from singles"),
		"MULTI":        t.s.list("multi"),
		"commands":     t.s.list("single"),
	}
	for _, name := range slices.Sorted(maps.Keys(t.kinds)) {
		a := t.kinds[name]
		each := 1
		if name == "transactions" || name == "MULTI" {
			each = 2
		}
		times := make(map[string]int)
		for _, n := range held[name] {
			times[n]++
		}
		lost := 0
		for _, n := range a.done {
			if times[n] != each {
				lost++
			}
			delete(times, n)
		}
		t.s.t.Logf("%-12s %5d committed, %d reconnects, %d repeated (had not landed), %d refused "+
			"connections, %d failed",
			name, len(a.done), a.reconnect, a.repeated, a.refused, len(a.failed))
		if lost > 0 || len(times) > 0 {
			t.s.t.Errorf("%s: %d acknowledged writes are missing or there twice; there without an "+
				"acknowledgement: %v",
				name, lost, slices.Sorted(maps.Keys(times)))
		}
		for _, err := range a.failed {
			t.s.t.Errorf("%s: %v", name, err)
		}
	}
}
