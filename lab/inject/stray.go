package inject

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// stray writes as the previous leader would if it had found another way to the store, and records
// that as an operation.
func (r *Injector) stray(ctx context.Context, f scenario.Fault) error {
	var c fence.Claim
	r.rec.Look(func(s *record.Seen) { c = s.Deposed() })
	if c.Token == 0 {
		return errors.New("nobody has been deposed, so nobody can stray")
	}
	switch f.By {
	case scenario.ByForgery:
		return r.attempt("postgres", c, func(op string) error { return r.forge(ctx, c) })
	case scenario.ByScript:
		return r.attempt("redis", c, func(op string) error { return r.runScript(ctx, op, c) })
	case scenario.ByFork:
		return r.strayInFork(ctx)
	case scenario.ByStaying:
		return r.strayInStayed(ctx)
	case scenario.ByReturning:
		return r.attempt("postgres", c, func(op string) error { return r.returning(ctx, f.On, op, c) })
	}
	at := r.sys.Addresses().Guards[scenario.Neighbour]
	return errors.Join(
		r.attempt("postgres", c, func(op string) error {
			return r.strayPostgres(ctx, at.Postgres, op, c)
		}),
		r.attempt("redis", c, func(op string) error { return r.strayRedis(ctx, at.Redis, op, c) }))
}

// attempt does and records one operation.
func (r *Injector) attempt(store string, c fence.Claim, do func(op string) error) error {
	r.strays++
	e := history.Event{
		Kind: history.Invoke, Process: "stray/" + store, Op: fmt.Sprintf("stray.%d", r.strays),
		Do: history.Write, Store: store, Token: c.Token,
	}
	r.rec.Add(e)
	err := do(e.Op)
	e.Kind, e.Outcome = history.Return, outcome(err)
	if err != nil {
		e.Text = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	r.rec.Add(e)
	if e.Outcome == history.Unknown {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return nil
}

var errUnanswered = errors.New("the stray write was neither accepted nor refused")

// outcome returns what an answer says. An error of a database says that nothing was committed.
func outcome(err error) history.Outcome {
	pg, fromPostgres := errors.AsType[*pgconn.PgError](err)
	var redis driver.Error
	fromRedis := errors.As(err, &redis)
	refused, isRefusal := errors.AsType[*fence.Refusal](err)
	switch {
	case err == nil:
		return history.OK
	case isRefusal && refused.Reason == fence.ErrStale:
		return history.Stale
	case isRefusal:
		return history.Refused
	case fromPostgres && pg.Code == refusal.SQLState(fence.ErrStale):
		return history.Stale
	case fromPostgres:
		return history.Refused
	case fromRedis && strings.HasPrefix(err.Error(), refusal.Word(fence.ErrStale)+" "):
		return history.Stale
	case fromRedis:
		return history.Refused
	}
	return history.Unknown
}

// strayPostgres asks a neighbour's guard for the database with the evidence. Without guards it
// connects to that directly.
func (r *Injector) strayPostgres(ctx context.Context, to, op string, c fence.Claim) error {
	if r.Unguarded {
		to = r.sys.Addresses().App
	}
	o, err := pgx.ParseConfig(to)
	if err != nil {
		return err
	}
	ours, err := url.Parse(r.sys.Addresses().App)
	if err != nil {
		return err
	}
	o.Database = strings.TrimPrefix(ours.Path, "/")
	if !r.Unguarded {
		o.RuntimeParams["options"] = refusal.StartupOption("", c)
	}
	conn, err := pgx.ConnectConfig(ctx, o)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return insert(ctx, conn, op, c)
}

// returning asks the guard for another session under the claim.
func (r *Injector) returning(ctx context.Context, guard, op string, c fence.Claim) error {
	conn, err := r.connectUnder(ctx, guard, c)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return insert(ctx, conn, op, c)
}

// insert adds an entry to the ledger in Postgres.
func insert(ctx context.Context, conn *pgx.Conn, op string, c fence.Claim) error {
	_, err := conn.Exec(ctx, "insert into ledger (op, token) values ($1, $2)", op, int64(c.Token))
	return err
}

// strayRedis uses the neighbour's guard to reach the database with the evidence.
func (r *Injector) strayRedis(ctx context.Context, to, op string, c fence.Claim) error {
	db, err := r.redisUnder(to, c)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Eval(ctx, system.Lua, ledgerKeys, op+" "+c.Token.String()).Err()
}

// runScript runs the script of a ledger's entry at Redis itself, under the claim.
func (r *Injector) runScript(ctx context.Context, op string, c fence.Claim) error {
	entry := op + " " + c.Token.String()
	return r.withRedis(func(db *driver.Client) error {
		if r.Unguarded {
			return db.Eval(ctx, system.Lua, ledgerKeys, entry).Err()
		}
		script := redismarks.NewScript(strings.ReplaceAll(system.Lua, "ARGV[1]", "ARGV[4]"))
		_, err := script.Run(ctx, db, c, ledgerKeys, entry)
		return err
	})
}

// forge publishes a checkpoint as the workers' role, in a transaction that has the setting that
// enter would have made, but has not entered.
func (r *Injector) forge(ctx context.Context, c fence.Claim) error {
	app, err := pgx.Connect(ctx, r.sys.Addresses().App)
	if err != nil {
		return err
	}
	defer app.Close(context.WithoutCancel(ctx))
	for { // until nobody else publishes in between
		var task, checkpoint string
		var version int64
		err := r.queryRow(ctx, "select task, version, checkpoint::text from ringfence_private.checkpoint",
			&task, &version, &checkpoint)
		if err != nil {
			return err
		}
		err = publishForged(ctx, app, c, task, version+1, checkpoint)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok ||
			pg.Code != refusal.CheckpointConflict {
			return err
		}
	}
}

func publishForged(
	ctx context.Context, app *pgx.Conn, c fence.Claim, task string, version int64,
	checkpoint string,
) error {
	resource, token, issuer := string(c.Resource), int64(c.Token), string(c.Issuer)
	return pgx.BeginFunc(ctx, app, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select set_config('ringfence.' || $1,
			format('entered %s %s', $2::bigint, $3::text), true)`, resource, token, issuer)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "select ringfence.publish($1, $2, $3, $4, $5, $6::json)",
			resource, token, issuer, task, version, checkpoint)
		return err
	})
}
