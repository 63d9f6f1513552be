package inject

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
)

// noConnections is too_many_connections of Postgres.
const noConnections = "53300"

// mostFilled is how many sessions fill tries to open: more than the stores take that it is for.
const mostFilled = 200

// fill opens idle sessions of the leader, through each guard in turn, until the store takes no more
// connections. They stay open until the fault ends, unless the server ends them.
func (r *Injector) fill(ctx context.Context, f scenario.Fault) error {
	all := &idle{}
	r.mu.Lock()
	r.held[f.Do] = all.close
	r.mu.Unlock()
	var c fence.Claim
	r.rec.Look(func(s *record.Seen) { c = s.Term() })
	var failed error // the last session; another connection may have had the last place for a moment
	for n := range mostFilled {
		full, err := r.isFull(ctx, f.On)
		if full {
			r.rec.Note("lab", fmt.Sprintf("%s is full, with %d idle sessions of token %v",
				f.On, all.len(), c.Token))
		}
		if full || err != nil {
			return err
		}
		guards := r.Topology.GuardNames()
		end, err := r.idleSession(ctx, f.On, guards[n%len(guards)], c)
		if err != nil {
			failed = err
			continue
		}
		all.add(end)
	}
	return errors.Join(failed,
		fmt.Errorf("%s is not full after %d sessions: give it a lower limit", f.On, mostFilled))
}

// idle are open sessions.
type idle struct {
	mu   sync.Mutex
	ends []func()
}

func (i *idle) add(end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ends = append(i.ends, end)
}

func (i *idle) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.ends)
}

func (i *idle) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, end := range i.ends {
		end()
	}
	i.ends = nil
}

// idleSession opens a session under a claim, which then does nothing. end closes its connection.
func (r *Injector) idleSession(
	ctx context.Context, store, guard string, c fence.Claim,
) (end func(), err error) {
	if store == "redis" {
		db, err := r.redisUnder(r.sys.Addresses().Guards[guard].Redis, c)
		if err != nil {
			return nil, err
		}
		if err := db.Ping(ctx).Err(); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return func() { _ = db.Close() }, nil
	}
	conn, err := r.connectUnder(ctx, guard, c)
	if err != nil {
		return nil, err
	}
	return func() { _ = conn.PgConn().Conn().Close() }, nil
}

// redisUnder returns a client with one connection to Redis, by the guard at to and under a claim.
// Without guards it connects directly.
func (r *Injector) redisUnder(to string, c fence.Claim) (*driver.Client, error) {
	if r.Unguarded {
		to = r.sys.Addresses().Redis
	}
	o, err := redismarks.ParseURL(to)
	if err != nil {
		return nil, err
	}
	o.DB, o.MaxRetries, o.PoolSize = 0, -1, 1
	if !r.Unguarded {
		o.ClientName = refusal.ClientName(c)
	}
	return driver.NewClient(o), nil
}

// isFull reports whether a store refuses one more connection, which it is asked for directly.
func (r *Injector) isFull(ctx context.Context, store string) (bool, error) {
	switch store {
	case "postgres":
		return postgresIsFull(ctx, r.sys.Addresses().App)
	case "redis":
		return redisIsFull(ctx, r.sys.Addresses().Redis)
	}
	return false, fmt.Errorf("%q cannot be filled: there are postgres and redis", store)
}

func postgresIsFull(ctx context.Context, url string) (bool, error) {
	conn, err := pgx.Connect(ctx, url)
	if err == nil {
		return false, conn.Close(ctx)
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if ok && refused.Code == noConnections {
		return true, nil
	}
	return false, err
}

// redisIsFull sends a PING. A full server may reset the connection before its reason is read.
func redisIsFull(ctx context.Context, url string) (bool, error) {
	o, err := redismarks.ParseURL(url)
	if err != nil {
		return false, err
	}
	dialer := net.Dialer{Timeout: crowdDial}
	conn, err := dialer.DialContext(ctx, "tcp", o.Addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(crowdDial))
	_, _ = conn.Write(ping)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, err
	}
	return !strings.HasPrefix(answer, "+PONG"), nil
}
