package pgmarks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Probe returns nil when the store can be used now: the server answers, is a primary, is reached
// directly and has our schema, the role has the privileges it needs, and an admission would get its
// locks and could write. It does the steps of an admission for no resource, and a write, and rolls
// them back.
func (s *Store) Probe(ctx context.Context) error {
	return s.retry(ctx, func() error {
		tx, err := s.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer rollBackSoon(ctx, tx)
		// The server gives up first, or while the connection waits for the end of the statement
		// (finishing). Otherwise the connection would be closed, and a full server has no other.
		limit := fmt.Sprintf("set local statement_timeout = %d", statementTime(ctx).Milliseconds())
		if _, err := tx.Exec(ctx, limit); err != nil {
			return err
		}
		if err := rehearse(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, letGoSQL, []int64{0}, []time.Time{{}})
		return err
	})
}

// statementTime is how long a statement of a probe may take: as long as ctx, two seconds at most.
func statementTime(ctx context.Context) time.Duration {
	const most = 2 * time.Second
	deadline, limited := ctx.Deadline()
	if !limited {
		return most
	}
	return min(most, max(time.Millisecond, time.Until(deadline))) // 0 would be no limit
}

// rollBackSoon rolls back also after ctx has ended.
func rollBackSoon(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// probe checks a control connection before it serves.
func probe(ctx context.Context, c *pgx.Conn, o Options) error {
	var pid uint32
	var standby, sees bool
	var prepared int
	var role string
	// settings are not made yet, so each function has its schema: the search_path may have others.
	err := c.QueryRow(ctx, `select pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(),
	        current_user, pg_catalog.current_setting('max_prepared_transactions')::int,
	        pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage')`).
		Scan(&pid, &standby, &role, &prepared, &sees)
	if err != nil {
		return explain(err)
	}
	switch {
	case pid != c.PgConn().PID():
		return poolerError(fmt.Sprintf("there is a pooler between guard and Postgres: "+
			"the login named backend %d, the server says %d", c.PgConn().PID(), pid))
	case standby:
		return refusal.Replica("the upstream is a standby: it cannot keep marks")
	case prepared > 0 && !o.AllowPrepared:
		return refusal.Setup(
			fmt.Sprintf("max_prepared_transactions is %d: a prepared transaction outlives its "+
				"session, so a deposed leader's could still be committed", prepared),
			"set it to 0, or set GUARD_POSTGRES_ALLOW_PREPARED=true if nobody uses "+
				"PREPARE TRANSACTION")
	}
	if _, err := c.PgConn().Exec(ctx, settings).ReadAll(); err != nil {
		return explain(err)
	}
	var version int
	if err := c.QueryRow(ctx, `select ringfence.version()`).Scan(&version); err != nil {
		return explain(err)
	}
	if version != pgschema.Version {
		return refusal.OtherVersion(version, pgschema.Version)
	}
	if !sees && !o.program {
		return refusal.Setup(
			fmt.Sprintf("role %s lacks pg_read_all_stats, so live sessions look gone", role),
			fmt.Sprintf("GRANT pg_read_all_stats TO %[1]s; or GRANT pg_monitor TO %[1]s, "+
				"which contains it (guard install tries both)", identifier(role)))
	}
	return nil
}

// mayLead is explain for the first function of a raise that only a role that may lead may call.
func (s *Store) mayLead(err error) error {
	setup, ok := errors.AsType[*fence.SetupError](err)
	if !ok || !s.program || !failedWith(setup.Cause, "42501") {
		return err
	}
	return &fence.SetupError{
		What: fmt.Sprintf("the role %s may not lead in this database: %s", s.cfg.User, setup.Cause),
		Hint: "either the store is meant to be a guard, and this is not its URL; or an operator names " +
			"the role in GUARD_POSTGRES_LEADERS, and runs guard install again",
		Cause: setup.Cause,
	}
}

// explain turns an error of Postgres about a missing or foreign schema, or about missing
// privileges, into one that says what to do.
func explain(err error) error {
	if _, refused := errors.AsType[*fence.Refusal](err); err == nil || refused {
		return err
	}
	if _, explained := errors.AsType[*fence.SetupError](err); explained {
		return err
	}
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		return pgcause.Plain(err)
	}
	switch pg.Code {
	case "3F000", "42883", "42P01", "42703": // no schema, function, table, column
		what := "the database has no schema ringfence that fits: " + pg.Message
		return refusal.NotInstalled(what, err)
	case refusal.SQLState(fence.ErrNotInstalled): // ringfence.check_complete
		r := refusal.NotInstalled(pg.Detail, err)
		r.Message, r.Hint = pg.Message, pg.Hint
		return r
	case "42501": // insufficient_privilege
		return &fence.SetupError{
			What: "the role lacks a privilege: " + pg.Message,
			Hint: "an operator runs guard install again. A program's role stands in " +
				"GUARD_POSTGRES_LEADERS, a guard's in GUARD_POSTGRES_UPSTREAM",
			Cause: pg,
		}
	}
	return pgcause.Plain(err)
}
