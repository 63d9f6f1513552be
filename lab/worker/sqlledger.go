package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
)

// ledgerSQL keeps the ledger by transactions of many shapes, through a pooler. Each begins with
// enter.
type ledgerSQL struct{ *ledgerPG }

func (w *worker) ledgerSQL(c fence.Claim) (ledgerSQL, error) {
	p, err := w.postgresUnder(c)
	return ledgerSQL{p}, err
}

// levels are the isolation levels of transactions.
var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

// shape is a kind of transaction. write adds one entry to the ledger, at once or at COMMIT, and
// calls stop where the process is to be stopped.
type shape struct {
	name  string
	write func(*attempt) error
}

var shapes = []shape{
	{"a statement", (*attempt).statement}, {"a savepoint", (*attempt).savepoint},
	{"a deferred trigger", (*attempt).deferred}, {"a trigger", (*attempt).trigger},
	{"a long query", (*attempt).longQuery}, {"COPY", (*attempt).copy},
	{"a cursor WITH HOLD", (*attempt).held}, {prepared, (*attempt).statement},
}

const prepared = "PREPARE TRANSACTION"

// choices draws shapes. A worker that is started again draws the same ones.
type choices struct {
	*rand.Rand
	order []int // of the shapes in which a worker is stopped, the same for all workers
	// how often it was to be stopped in a prepared transaction, and the server prepared none
	refused int
}

func newChoices(c Config) *choices {
	name := fnv.New64()
	_, _ = io.WriteString(name, c.Name)
	return &choices{
		Rand:  rand.New(rand.NewPCG(c.Seed, name.Sum64())),
		order: rand.New(rand.NewPCG(c.Seed, 0)).Perm(len(shapes)),
	}
}

// draw returns a shape and a level. Leaders with one token after the other are stopped in every
// shape.
func (c *choices) draw(stop bool, t fence.Token) (shape, pgx.TxIsoLevel) {
	n := c.IntN(len(shapes))
	if stop {
		n = c.order[(int(t)+c.refused)%len(shapes)]
	}
	return shapes[n], levels[c.IntN(len(levels))]
}

// attempt is one transaction.
type attempt struct {
	ledgerSQL
	ctx    context.Context
	within context.Context // the deadline of an operation; the time of a stop does not count
	cancel context.CancelFunc
	tx     pgx.Tx
	op     string
	token  int64

	stops, stopped bool // whether the process is to be stopped inside, and was
}

func (p ledgerSQL) write(ctx context.Context, op string, token fence.Token) result {
	stops := p.w.signals.stopRequested()
	kind, level := p.w.choices.draw(stops, token)
	a := &attempt{ledgerSQL: p, ctx: ctx, op: op, token: int64(token), stops: stops}
	r := a.transact(kind, level)
	if stops && !a.stopped {
		p.w.signals.stopLater()
		if kind.name == prepared {
			p.w.choices.refused++
		}
	}
	if a.stopped {
		p.w.note("it was stopped in %s of %s, %s: %s %s", kind.name, op, level, r.outcome, r.text())
	}
	return r
}

func (a *attempt) limit() {
	a.within, a.cancel = context.WithTimeout(a.ctx, a.w.c.Deadline)
}

// transact does one transaction, and returns its outcome.
func (a *attempt) transact(kind shape, level pgx.TxIsoLevel) result {
	a.limit()
	defer func() { a.cancel() }()
	var err error
	if a.tx, err = a.pool.BeginTx(a.within, pgx.TxOptions{IsoLevel: level}); err != nil {
		return beforeCommit(err, a.claim)
	}
	defer rollBack(a.ctx, a.tx)
	if err := a.enter(); errors.Is(err, errNotMine) {
		return result{outcome: history.Stale, err: err}
	} else if err != nil {
		return beforeCommit(err, a.claim)
	}
	if a.n++; a.stops || a.n%lockEvery == 0 {
		if err := a.exec("update account set balance = balance + 1"); err != nil {
			return beforeCommit(err, a.claim)
		}
	}
	if kind.name == prepared {
		return a.prepare(kind)
	}
	if err := kind.write(a); err != nil {
		return beforeCommit(err, a.claim)
	}
	return committed(a.tx.Commit(a.within))
}

// errNotMine is the refusal of a fence that was written by hand.
var errNotMine = errors.New("the lease has another token")

// enter puts the transaction under the pass. A seeded bug does without, or looks at a lease and
// locks nothing.
func (a *attempt) enter() error {
	switch a.w.c.Flaw {
	case flaw.NoEnter:
		return nil
	case flaw.ByHand:
		found, err := a.tx.Exec(a.within, "select from lease where token = $1", a.token)
		if err == nil && found.RowsAffected() == 0 {
			return errNotMine
		}
		return err
	}
	return a.exec("select ringfence.enter($1)", pass(a.claim))
}

func (a *attempt) exec(sql string, args ...any) error {
	_, err := a.tx.Exec(a.within, sql, args...)
	return err
}

func (a *attempt) all(statements ...string) error {
	for _, sql := range statements {
		if err := a.exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// stop waits here, if the process is to be stopped.
func (a *attempt) stop() {
	if a.stops {
		a.stopped = true
		a.w.waitInside(a.ctx)
		a.cancel()
		a.limit()
	}
}

// insert writes an entry, and stops.
func (a *attempt) insert() error {
	err := a.exec("insert into ledger (op, token) values ($1, $2)", a.op, a.token)
	if err == nil {
		a.stop()
	}
	return err
}

func (a *attempt) statement() error { return a.insert() }

// savepoint writes in one subtransaction, and rolls back another.
func (a *attempt) savepoint() error {
	undone := fmt.Sprintf("insert into ledger (op, token) values ('%s undone', %d)", a.op, a.token)
	if err := a.all("savepoint one", undone, "rollback to one", "savepoint two"); err != nil {
		return err
	}
	if err := a.insert(); err != nil {
		return err
	}
	return a.exec("release two")
}

// deferred writes nothing to the ledger before COMMIT.
func (a *attempt) deferred() error {
	err := a.exec("insert into pending (op, token) values ($1, $2)", a.op, a.token)
	if err == nil {
		a.stop()
	}
	return err
}

func (a *attempt) trigger() error {
	if err := a.exec("set constraints all immediate"); err != nil {
		return err
	}
	return a.deferred()
}

// longQuery is in the middle of a query when the process is stopped.
func (a *attempt) longQuery() error {
	err := a.exec("insert into ledger (op, token) values ($1, $2)", a.op, a.token)
	if err != nil || !a.stops {
		return errors.Join(err, a.exec("select pg_sleep(0.02)"))
	}
	a.stopped = true
	waited := make(chan struct{})
	go func() { defer close(waited); a.w.waitInside(a.ctx) }()
	long, cancel := context.WithTimeout(a.ctx, insideTime)
	defer cancel()
	_, err = a.tx.Exec(long, fmt.Sprintf("select pg_sleep(%f)", longTime.Seconds()))
	<-waited
	a.cancel()
	a.limit()
	return err
}

// longTime is longer than a take-over lasts, with the lease before it.
const longTime = 4 * time.Second

// copy is in the middle of COPY when the process is stopped.
func (a *attempt) copy() error {
	ctx, cancel := a.within, func() {}
	if a.stops {
		ctx, cancel = context.WithTimeout(a.ctx, insideTime+a.w.c.Deadline)
	}
	defer cancel()
	row := strings.NewReader(fmt.Sprintf("%s\t%d\n", a.op, a.token))
	end := &copyEnd{a: a}
	_, err := a.tx.Conn().PgConn().CopyFrom(ctx, io.MultiReader(row, end), "copy ledger (op, token) "+
		"from stdin")
	end.await()
	return err
}

// copyEnd is the end of what COPY reads, after a stop. The driver may leave it behind in a
// goroutine.
type copyEnd struct {
	a    *attempt
	mu   sync.Mutex
	over bool
}

func (e *copyEnd) Read([]byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.a.stop()
	}
	e.over = true
	return 0, io.EOF
}

// await returns once it stops no more.
func (e *copyEnd) await() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
}

// held declares a cursor whose query writes. It is run at COMMIT.
func (a *attempt) held() error {
	err := a.all("close all",
		fmt.Sprintf(`declare "%s" cursor with hold for select record_entry('%s', %d)`, a.op, a.op,
			a.token))
	if err == nil {
		a.stop()
	}
	return err
}

// prepare prepares the transaction, and commits it on any connection of the pool. Until COMMIT
// PREPARED is sent nothing can commit it.
func (a *attempt) prepare(kind shape) result {
	stops := a.stops
	a.stops = false // not before it is prepared
	err := kind.write(a)
	a.stops = stops
	if err == nil {
		err = a.exec("prepare transaction '" + a.op + "'")
	}
	if err != nil {
		return beforeCommit(err, a.claim)
	}
	a.stop()
	_, err = a.pool.Exec(a.within, "commit prepared '"+a.op+"'")
	if err != nil { // it may still hold its locks
		_, _ = a.pool.Exec(a.within, "rollback prepared '"+a.op+"'")
	}
	return committed(err)
}
