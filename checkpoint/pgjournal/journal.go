// Package pgjournal keeps checkpoints in Postgres, in the schema that guard install makes. It also
// runs synchronous steps: one transaction, under the fence, commits the step's effects, its new
// state and the next step.
//
//	journal := pgjournal.New(pool, pgjournal.Options{
//		Raiser: pgstore.NewRaiser("postgres://app@guard:6432/shop", nil),
//	})
//	defer journal.Close()
//	book := pgjournal.Step("book", func(ctx context.Context, tx pgx.Tx, s Totals) (Totals, error) {
//		_, err := tx.Exec(ctx, "insert into ledger …")
//		return s, err
//	})
//
// # One step
//
//	begin; …                                  together with the step's first statement
//	…                                         the step's other statements
//	select ringfence.publish(…); commit       one round trip: conditional on the version before
//
// The first step on a connection attaches it: the session is registered under the token, as a guard
// would register it, and a raise ends it before a newer leader is admitted. So its transactions
// need no check of their own. Where that is impossible (a pooler, a superuser, Options.Shared)
// every BEGIN carries the check: begin; select ringfence.enter(…).
//
// On an attached connection a step's transaction begins with its first statement. If that is an
// Exec with arguments, and has begun a transaction of the connection before, it is sent together
// with BEGIN. That saves a round trip. Otherwise, and in a pool with a tracer, another default
// query mode or a BeginQuery, BEGIN is sent alone.
//
// If the process stops before COMMIT, it leaves nothing; after COMMIT, everything has landed. If
// the connection breaks during COMMIT, the outcome is unknown, and the leader reads the checkpoint
// back.
//
// An asynchronous step costs one statement, ringfence.enter_and_publish. Forget is one statement,
// too.
//
// # Roles
//
// The role of the journal's connections needs the privileges that guard install grants to programs
// that may lead (GUARD_POSTGRES_LEADERS). They suffice to raise the mark, too.
package pgjournal

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Options of a Journal. Without a Raiser somebody else has to raise the mark, such as fence.Lead
// with its Stores.
type Options struct {
	// Raiser raises the mark if it is not raised yet: store/pgstore.Raiser with the URL of the
	// guard or the database.
	Raiser fence.Raiser
	// Transaction has the options of a synchronous step's transaction, such as its isolation level.
	Transaction pgx.TxOptions
	// Shared says that the pool serves other resources or purposes too. Every transaction is then
	// checked. Otherwise a connection that has run a step becomes a session under the term's token:
	// its transactions need no check, and it ends when a newer leader comes, whatever it does at
	// that time. Behind a pooler Shared makes no difference.
	Shared bool
	// Limit is the maximum size of a checkpoint as JSON, in bytes; 16 MiB when zero.
	Limit int
	// Poll is how often Follow polls for a newer checkpoint, in case a notice was lost; 1 s when
	// zero.
	Poll time.Duration
}

// Journal keeps checkpoints in the database of a pool. The caller owns the pool and closes it after
// the journal. A pooler in transaction mode may be in between; then set default_query_exec_mode of
// the pool accordingly.
type Journal struct {
	pool *pgxpool.Pool
	o    Options

	stop      context.CancelFunc
	notifying sync.WaitGroup
	news      chan checkpoint.Name
}

var (
	_ checkpoint.Journal            = (*Journal)(nil)
	_ checkpoint.Transactor[pgx.Tx] = (*Journal)(nil)
)

// New makes a journal in the pool's database. It connects to nothing.
func New(pool *pgxpool.Pool, o Options) *Journal {
	if o.Limit == 0 {
		o.Limit = 16 << 20
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	ctx, stop := context.WithCancel(context.Background())
	j := &Journal{pool: pool, o: o, stop: stop, news: make(chan checkpoint.Name, 64)}
	j.notifying.Go(func() { j.sendNotices(ctx) })
	return j
}

// Close ends the journal's goroutine. It leaves the pool open.
func (j *Journal) Close() {
	j.stop()
	j.notifying.Wait()
}

// Step makes a synchronous step: see checkpoint.Synchronous.
func Step[S any](
	name string, run func(ctx context.Context, tx pgx.Tx, s S) (S, error),
) checkpoint.Step[S] {
	return checkpoint.Synchronous(name, run)
}

// Raise implements fence.Raiser. If the mark is already raised to the claim, such as through a
// guard, it changes nothing.
func (j *Journal) Raise(ctx context.Context, c fence.Claim) error {
	var open bool
	err := j.pool.QueryRow(ctx, `select ringfence.is_open($1::text, $2::bigint, $3::text, $4::text)`,
		c.Resource, int64(c.Token),
		c.Issuer, c.Candidate).Scan(&open)
	if err != nil || open {
		return answered(ctx, err, c)
	}
	if j.o.Raiser != nil {
		err := answered(ctx, j.o.Raiser.Raise(ctx, c), c)
		j.pool.Reset() // connections that were attached under an older token have been ended
		return err
	}
	// enter says why the mark does not fit.
	_, err = j.pool.Exec(ctx, `select ringfence.enter($1::text, $2::bigint, $3::text, $4::text)`,
		c.Resource,
		int64(c.Token), c.Issuer, c.Candidate)
	return answered(ctx, err, c)
}

// TakeOver implements checkpoint.Journal with one statement.
func (j *Journal) TakeOver(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	var version int64
	var owner *string
	var document []byte
	err := j.pool.QueryRow(ctx,
		`select version, owner, checkpoint from ringfence.resume($1::text, $2::bigint, $3::text, $4::text, $5::bigint, $6::text)`,
		c.Resource, int64(c.Token), c.Issuer, task, have, c.Candidate).Scan(&version, &owner, &document)
	if err != nil {
		return checkpoint.Checkpoint{}, false, answered(ctx, err, c)
	}
	if owner != nil && *owner != string(c.Resource) {
		return checkpoint.Checkpoint{}, false, fmt.Errorf("%w: %s belongs to %q, not to %q; "+
			"nothing was run", checkpoint.ErrOtherResource, task, *owner, c.Resource)
	}
	if version == have || version == 0 {
		return checkpoint.Checkpoint{Task: task}, version == have && version > 0, nil
	}
	cp, err := decode(document)
	return cp, false, err
}

// Publish implements checkpoint.Journal with one statement, committed with synchronous_commit on.
func (j *Journal) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	document, err := j.encode(c, cp)
	if err != nil {
		return err
	}
	_, err = j.pool.Exec(ctx,
		`select ringfence.enter_and_publish($1::text, $2::bigint, $3::text, $4::text, $5::bigint, $6::json, $7::text)`,
		c.Resource, int64(c.Token), c.Issuer, cp.Task, cp.Version, string(document), c.Candidate)
	if err != nil {
		return landed(ctx, err, c)
	}
	j.queueNotice(cp.Task)
	return nil
}

// Forget implements checkpoint.Journal with one statement, committed with synchronous_commit on. On
// an installation from before it, it returns fence.ErrNotInstalled: run guard install again.
func (j *Journal) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	_, err := j.pool.Exec(ctx,
		`select ringfence.enter_and_forget($1::text, $2::bigint, $3::text, $4::text, $5::text)`,
		c.Resource, int64(c.Token), c.Issuer, task, c.Candidate)
	if err != nil {
		return landed(ctx, err, c)
	}
	return nil
}

// Load implements checkpoint.Journal.
func (j *Journal) Load(
	ctx context.Context, only ...checkpoint.Name,
) ([]checkpoint.Checkpoint, error) {
	found, err := load(ctx, j.pool, only...)
	return found, answered(ctx, err, fence.Claim{})
}

// texts converts names to strings, which the driver can send even if it does not know the
// parameter's type, as behind a pooler. nil stays nil.
func texts(names []checkpoint.Name) (all []string) {
	for _, n := range names {
		all = append(all, string(n))
	}
	return all
}

// querier is a pool or one of its connections.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func load(
	ctx context.Context, q querier, only ...checkpoint.Name,
) ([]checkpoint.Checkpoint, error) {
	rows, err := q.Query(ctx, `select checkpoint from ringfence.checkpoints($1::text[])`, texts(only))
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
	return ascii(document), nil
}

// ascii escapes all else in a JSON document. So each encoding of a database has its characters, and
// the caller's pool need not state the encoding of what it sends.
func ascii(document []byte) []byte {
	escaped := make([]byte, 0, len(document))
	for _, r := range string(document) {
		if r < utf8.RuneSelf {
			escaped = append(escaped, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}

func decode(document []byte) (cp checkpoint.Checkpoint, err error) {
	if err := json.Unmarshal(document, &cp); err != nil {
		return cp, fmt.Errorf("%w: in table ringfence_private.checkpoint: %w", checkpoint.ErrCorrupt, err)
	}
	return cp, nil
}
