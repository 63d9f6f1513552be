package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/pgcause"
)

var (
	// errNotInstalled: the database has no schema of ours, or an older one.
	errNotInstalled = errors.New("the database has no schema ringfence_elections that fits")
	// errStandby: a server in recovery holds no elections.
	errStandby = &fence.SetupError{
		What: "this server is a standby, or takes no writes: it holds no elections",
		Hint: "name the primary in the URL, or all servers, as in postgres://app@h1,h2/shop",
	}
	// errOver: the session has expired, was closed, or is of an earlier timeline.
	errOver = fmt.Errorf("%w: Postgres has ended the session", fence.ErrExpired)
	// errGone: the candidate's row was deleted.
	errGone = errors.New("the candidate's row is gone")
)

// ask repeats a round trip until the server answers: for the request timeout, or until ctx ends or
// the Coordinator is closed. try must be safe to repeat, because an attempt without an answer may
// have taken effect. what is for the error, which matches ErrUnreachable if the server did not
// answer.
func ask[T any](
	ctx context.Context, c *Coordinator, what string, try func(context.Context, *pgx.Conn) (T, error),
) (T, error) {
	return askOn(ctx, c, c.calls, what, try)
}

// askOn is ask on the connections of a pool.
func askOn[T any](
	ctx context.Context, c *Coordinator, p *pool, what string,
	try func(context.Context, *pgx.Conn) (T, error),
) (T, error) {
	var none T
	if err := c.begin(); err != nil {
		return none, err
	}
	defer c.work.Done()
	ctx, stop := c.withClose(ctx)
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, c.requestTimeout())
	defer cancel()
	var last error
	for failures := 1; ; failures++ {
		answer, err := once(bounded, p, c.requestTimeout()/2, try)
		if errors.Is(err, errNotInstalled) {
			_, err = once(bounded, p, c.requestTimeout()/2, c.install)
			if err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return answer, nil
		case refused(err), errors.Is(err, errOver), errors.Is(err, errGone):
			return none, fmt.Errorf("%s: %w", what, err)
		case bounded.Err() == nil || last == nil:
			last = err
		}
		backoff.Pause(bounded, backoff.After(failures, 20*time.Millisecond, time.Second))
		switch {
		case ctx.Err() != nil:
			return none, fmt.Errorf("%s: %w (%w)", what, last, context.Cause(ctx))
		case bounded.Err() != nil:
			return none, fmt.Errorf("%s: %w within %s: %w", what, ErrUnreachable,
				c.requestTimeout(), last)
		}
	}
}

// once bounds one round trip.
func once[T any](
	ctx context.Context, p *pool, limit time.Duration,
	try func(context.Context, *pgx.Conn) (T, error),
) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = p.do(ctx, func(conn *pgx.Conn) error {
		answer, err = try(ctx, conn)
		return explain(err)
	})
	return answer, err
}

// row calls a function of the schema that returns one row.
func row(ctx context.Context, conn *pgx.Conn, into []any, call string, args ...any) error {
	return conn.QueryRow(ctx, "select * from ringfence_elections."+call, args...).Scan(into...)
}

// refused reports an error that retrying cannot fix.
func refused(err error) bool {
	var setup *fence.SetupError
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, errStandby):
		return false // a failover may be under way
	case errors.As(err, &setup):
		return true
	case !errors.As(err, &pg):
		return false
	}
	switch pg.Code[:2] {
	case "08", "25", "40", "53", "54", "55", "57", "58", "XX":
		return false // connections, failovers, deadlocks, resources, limits, locks, shutdowns, disks
	}
	return true
}

// broken reports an error after which a connection is of no use, and other connections to the same
// server probably are of none either.
func broken(err error) bool {
	var pg *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, errOver), errors.Is(err, errGone), errors.Is(err, errNotInstalled):
		return false
	case !errors.As(err, &pg):
		return true
	}
	return errors.Is(err, errStandby) || pg.Code[:2] == "57" || pg.Code[:2] == "25"
}

// explain turns an error of Postgres into one that says what to do, where we know.
func explain(err error) error {
	var pg *pgconn.PgError
	var known *fence.SetupError
	if !errors.As(err, &pg) || errors.As(err, &known) || errors.Is(err, errNotInstalled) {
		if pgcause.NoTLS(err) {
			return &fence.SetupError{
				What: "the server refused TLS",
				Hint: "set ssl = on there, or sslmode=disable in the URL; a URL without sslmode takes it " +
					"from PGSSLMODE",
				Cause: err,
			}
		}
		return pgcause.Plain(err)
	}
	setup := func(what, hint string) error {
		return &fence.SetupError{What: what, Hint: hint, Cause: err}
	}
	switch pg.Code {
	case "3F000", "42883", "42P01": // no schema, no function, no table
		return fmt.Errorf("%w: %w", errNotInstalled, err)
	case "RFE01", "25006": // in recovery, read-only
		return fmt.Errorf("%w: %w", errStandby, err)
	case "RFE02":
		return setup(pg.Message,
			"ALTER ROLE … SET default_transaction_isolation = 'read committed'")
	case "RFE03", "2200H": // the counter has gone back, or is used up
		return setup(pg.Message,
			"stop all leaders and drop the schema ringfence_elections: "+
				"a new one is another issuer")
	case "42501": // insufficient_privilege
		return setup("the role lacks a privilege for elections: "+pg.Message,
			"an operator runs guard install in that database, or Install of fence/postgres, "+
				"with this role among those that hold elections")
	case "08P01":
		if strings.Contains(pg.Message, "unsupported startup parameter") {
			return setup("there is a pooler between us and Postgres: "+pg.Message,
				"add listen=off to the options of the URL, "+
					"as in postgres://app@pooler/shop?listen=off")
		}
	}
	return pgcause.Plain(err)
}
