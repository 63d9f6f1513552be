package worker

import (
	"context"
	"fmt"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
	"github.com/ringfence/ringfence/store/redisstore"
)

// redisKeys are those of system.Lua.
var redisKeys = []string{"ledger", "balance"}

// redis opens the ledger: with the product's client, or so that connections outlive the term.
func (w *worker) redis(claim fence.Claim, term *fence.Term) (writer, error) {
	if w.isGood(term) && w.c.Route == scenario.Guarded && w.c.Flaw == "" {
		o, err := w.redisOptions()
		if err != nil {
			return nil, err
		}
		return &ledgerRedis{w: w, db: redisstore.NewClient(term, o), claim: claim}, nil
	}
	return w.redisUnder(w.carried(claim))
}

// redisUnder opens the ledger under a claim, which connections carry if the route demands it.
func (w *worker) redisUnder(c fence.Claim) (writer, error) {
	if w.c.Route == scenario.Embedded {
		db, err := redismarks.Connect(w.c.Redis, w.c.Name)
		if err != nil {
			return nil, fmt.Errorf("LAB_REDIS: %w", err)
		}
		script := redisstore.NewScript(strings.ReplaceAll(system.Lua, "ARGV[1]", "ARGV[4]"))
		return &scriptRedis{w: w, db: db, claim: c, script: script}, nil
	}
	o, err := w.redisOptions()
	if err != nil {
		return nil, err
	}
	o.ClientName = w.c.Name
	if w.c.Route == scenario.Guarded {
		o.ClientName = fmt.Sprintf("fence.%s=%s", c.Resource, c.Token)
	}
	return &ledgerRedis{w: w, db: driver.NewClient(o), claim: c}, nil
}

// redisOptions never send anything twice, and wait no longer than for an operation.
func (w *worker) redisOptions() (*driver.Options, error) {
	o, err := redismarks.ParseURL(w.c.Redis)
	if err != nil {
		return nil, fmt.Errorf("LAB_REDIS: %w", err)
	}
	o.MaxRetries, o.PoolSize, o.DialerRetries = -1, 2, 1
	o.DialTimeout, o.ReadTimeout = w.c.Deadline, w.c.Deadline
	o.WriteTimeout, o.PoolTimeout = w.c.Deadline, w.c.Deadline
	o.ContextTimeoutEnabled = true
	return o, nil
}

// ledgerRedis keeps the ledger in Redis over a session. A separate command opens the session: if a
// guard refuses that, the write was never sent. The answer to a script could not prove that.
type ledgerRedis struct {
	w     *worker
	db    *driver.Client
	conn  *driver.Conn // the open session, or nil
	claim fence.Claim
}

func (l *ledgerRedis) write(ctx context.Context, op string, token fence.Token) result {
	ctx, cancel := context.WithTimeout(ctx, l.w.c.Deadline)
	defer cancel()
	if err := l.open(ctx); err != nil {
		return unsent(redismarks.Refused(err, l.claim), refusal.Word)
	}
	r := ran(l.conn.Eval(ctx, system.Lua, redisKeys, entry(op, token)).Err(), l.claim)
	if r.err != nil {
		l.drop() // its next answer would not be trustworthy
	}
	return r
}

func entry(op string, token fence.Token) string { return op + " " + token.String() }

// open opens a session if there is none. The driver dials and sends the client name with the first
// command.
func (l *ledgerRedis) open(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	l.conn = l.db.Conn()
	err := l.conn.Ping(ctx).Err()
	if err != nil {
		l.drop()
	}
	return err
}

func (l *ledgerRedis) drop() {
	_ = l.conn.Close()
	l.conn = nil
}

func (l *ledgerRedis) close() {
	if l.conn != nil {
		l.drop()
	}
	_ = l.db.Close()
}

// scriptRedis keeps the ledger in Redis itself, by a script that carries its claim.
type scriptRedis struct {
	w      *worker
	db     *driver.Client
	script *redisstore.Script
	claim  fence.Claim
}

func (s *scriptRedis) write(ctx context.Context, op string, token fence.Token) result {
	ctx, cancel := context.WithTimeout(ctx, max(s.w.c.Deadline, time.Second))
	defer cancel()
	_, err := s.script.Run(ctx, s.db, s.claim, redisKeys, entry(op, token))
	return underClaim(err)
}

func (s *scriptRedis) close() { _ = s.db.Close() }
