// Package postgres keeps checkpoints in Postgres, in the schema that guard install makes, and runs
// synchronous steps: one transaction with the step's effects, its new state and the next step,
// under the fence.
//
// # One step
//
//	begin                                     one round trip
//	…                                         the step's own statements
//	select ringfence.publish(…); commit       one round trip: conditional on the version before
//
// The first step of a connection attaches it: it is registered under the token, as a guard would
// register it, and a raise ends it before a newer leader is let in; so its transactions are not
// checked one by one. Where that cannot be (a pooler, a superuser, Options.Shared) every BEGIN
// carries the check with it: begin; select ringfence.enter(…).
//
// What the process leaves when it stops in between: before COMMIT nothing, after COMMIT all of it.
// If the connection is lost during COMMIT, nobody can tell which; the checkpoint is then read back.
//
// An asynchronous step costs one statement, ringfence.enter_and_publish.
//
// # Roles
//
// The role of the journal's connections needs what guard install grants to leaders
// (GUARD_POSTGRES_LEADERS). To raise the mark it needs a guard in between, or the guard's own
// privileges, or a Raiser that has one of the two.
package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Options of a journal. The zero value is right for most.
type Options struct {
	// Raiser raises the mark when it is not raised yet: store/postgres.Raiser with the URL of the
	// guard or database.
	Raiser fence.Raiser
	// Transaction is how a synchronous step's transaction is begun, such as its isolation level.
	Transaction pgx.TxOptions
	// Shared is for a pool whose connections serve other resources or other purposes too: every
	// transaction is then checked for itself. Otherwise a connection that has run a step is a
	// session under the term's token, which spares the check, and ends when a newer leader comes,
	// whatever it does then. Behind a pooler it makes no difference.
	Shared bool
	// Limit is the most bytes of a checkpoint document, 16 MiB when zero.
	Limit int
	// Poll is how often a standby looks for a newer checkpoint that it was not notified of; 1 s
	// when zero.
	Poll time.Duration
}

// Journal keeps checkpoints in the database of a pool. The pool is the caller's, who closes it
// after the journal. A pooler in transaction mode may stand in between; then give the pool a
// default_query_exec_mode that fits it.
type Journal struct {
	pool *pgxpool.Pool
	o    Options

	stop    context.CancelFunc
	telling sync.WaitGroup
	news    chan checkpoint.Name
}

var (
	_ checkpoint.Journal            = (*Journal)(nil)
	_ checkpoint.Transactor[pgx.Tx] = (*Journal)(nil)
)

// New makes a journal of the schema in the pool's database.
func New(pool *pgxpool.Pool, o Options) *Journal {
	if o.Limit == 0 {
		o.Limit = 16 << 20
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	j := &Journal{pool: pool, o: o, stop: stop, news: make(chan checkpoint.Name, 64)}
	j.telling.Go(func() { j.tell(ctx) })
	return j
}

// Close ends what the journal does in the background. It leaves the pool open.
func (j *Journal) Close() {
	j.stop()
	j.telling.Wait()
}

// Step is a synchronous step: see checkpoint.Synchronous.
func Step[S any](
	name string, run func(ctx context.Context, tx pgx.Tx, s S) (S, error),
) checkpoint.Step[S] {
	return checkpoint.Synchronous(name, run)
}

// Raise is fence.Raiser's. Where the mark is raised to the claim already, such as through a guard,
// it only looks.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	var open bool
	err := j.pool.QueryRow(ctx, `select ringfence.is_open($1, $2, $3)`, c.Resource, int64(c.Token),
		c.Issuer).Scan(&open)
	if err != nil || open {
		return answered(ctx, err, c)
	}
	if j.o.Raiser != nil {
		err := answered(ctx, j.o.Raiser.Raise(ctx, c), c)
		j.pool.Reset() // connections that were attached under an older token have been ended
		return err
	}
	// it says why not
	_, err = j.pool.Exec(ctx, `select ringfence.enter($1, $2, $3)`, c.Resource,
		int64(c.Token), c.Issuer)
	return answered(ctx, err, c)
}

// Take is checkpoint.Journal's: one statement.
func (j *Journal) Take(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	var version int64
	var resource *string
	var document []byte
	err := j.pool.QueryRow(ctx,
		`select version, resource, checkpoint from ringfence.take($1, $2, $3, $4, $5)`,
		c.Resource, int64(c.Token), c.Issuer, task, have).Scan(&version, &resource, &document)
	if err != nil {
		return checkpoint.Checkpoint{}, false, answered(ctx, err, c)
	}
	if resource != nil && *resource != string(c.Resource) {
		return checkpoint.Checkpoint{}, false, fmt.Errorf("%w: %s belongs to %q, not to %q; "+
			"nothing was run", checkpoint.ErrOtherResource, task, *resource, c.Resource)
	}
	if version == have || version == 0 {
		return checkpoint.Checkpoint{Task: task}, version == have && version > 0, nil
	}
	cp, err := decode(document)
	return cp, false, err
}

// Publish is checkpoint.Journal's: one statement, committed with synchronous_commit on.
func (j *Journal) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	document, err := j.encode(c, cp)
	if err != nil {
		return err
	}
	_, err = j.pool.Exec(ctx, `select ringfence.enter_and_publish($1, $2, $3, $4, $5, $6)`,
		c.Resource, int64(c.Token), c.Issuer, cp.Task, cp.Version, string(document))
	if err != nil {
		return landed(ctx, err, c)
	}
	j.published(cp.Task)
	return nil
}

// Load is checkpoint.Journal's.
func (j *Journal) Load(
	ctx context.Context, only ...checkpoint.Name,
) ([]checkpoint.Checkpoint, error) {
	found, err := load(ctx, j.pool, only...)
	return found, answered(ctx, err, fence.Claim{})
}

// texts is names as a driver knows them that is told no types, such as behind a pooler; nil stays
// nil.
func texts(names []checkpoint.Name) (all []string) {
	for _, n := range names {
		all = append(all, string(n))
	}
	return all
}

// querier is a pool, or a connection of it.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func load(
	ctx context.Context, q querier, only ...checkpoint.Name,
) ([]checkpoint.Checkpoint, error) {
	rows, err := q.Query(ctx, `select checkpoint from ringfence.checkpoints($1)`, texts(only))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (checkpoint.Checkpoint, error) {
		var document []byte
		if err := r.Scan(&document); err != nil {
			return checkpoint.Checkpoint{}, err
		}
		return decode(document)
	})
}

func (j *Journal) encode(c fence.Claim, cp checkpoint.Checkpoint) ([]byte, error) {
	if cp.Resource != c.Resource {
		return nil, fmt.Errorf("%w: %s is a checkpoint of %q, the claim is to %q; "+
			"nothing was written", checkpoint.ErrOtherResource, cp.Task, cp.Resource, c.Resource)
	}
	document, err := json.Marshal(cp)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint of %s cannot be written as JSON: %w", cp.Task, err)
	}
	if len(document) > j.o.Limit {
		return nil, fmt.Errorf("%w: %s would have %d bytes, the journal takes %d",
			checkpoint.ErrTooLarge, cp.Task, len(document), j.o.Limit)
	}
	return document, nil
}

func decode(document []byte) (cp checkpoint.Checkpoint, err error) {
	if err := json.Unmarshal(document, &cp); err != nil {
		return cp, fmt.Errorf("%w: in table ringfence.checkpoint: %w", checkpoint.ErrCorrupt, err)
	}
	return cp, nil
}
