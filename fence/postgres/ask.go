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
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

var (
	// errNotInstalled: the database has no schema of ours, or an older one.
	errNotInstalled = errors.New("the database has no schema ringfence that fits")
	// errStandby: a server in recovery holds no elections.
	errStandby = &fence.SetupError{
		What:   "this server is a standby: it holds no elections",
		Hint:   "name the primary in the URL, or all servers, as in postgres://app@h1,h2/shop",
		Passes: true,
	}
	// errReadOnly: transactions are read-only by default. Some services do that while a disk is full.
	errReadOnly = &fence.SetupError{
		What: "transactions are read-only here by default, so there are no elections",
		Hint: "if a disk is full, make room; otherwise, such as behind a pooler: " +
			"ALTER ROLE ... SET default_transaction_read_only = off",
		Passes: true,
	}
	// errOver: the session has expired, was closed, or is of an earlier timeline.
	errOver = fmt.Errorf("%w: Postgres has ended the session", fence.ErrExpired)
	// errGone: the candidate's row was deleted.
	errGone = errors.New("the candidate's row is gone")
)

// errInstalled: the schema was missing, and is installed now. Try again.
var errInstalled = errors.New("the schema ringfence was installed")

// ask is campaign.Ask on a connection for calls.
func ask[T any](
	ctx context.Context, c *Coordinator, what string, try func(context.Context, *pgx.Conn) (T, error),
) (T, error) {
	return askOn(ctx, c, c.calls, what, c.frame.RequestTimeout()/2, try)
}

// askOn is ask on the connections of a pool, with a limit for each attempt.
func askOn[T any](
	ctx context.Context, c *Coordinator, p *pool, what string, limit time.Duration,
	try func(context.Context, *pgx.Conn) (T, error),
) (T, error) {
	return campaign.AskWithin(ctx, c.frame, what, limit, func(ctx context.Context) (T, error) {
		answer, err := use(ctx, p, try)
		if errors.Is(err, errNotInstalled) {
			if _, err = use(ctx, p, c.install); err == nil {
				err = errInstalled
			}
		}
		return answer, err
	})
}

// once makes one round trip, bounded by a limit.
func once[T any](
	ctx context.Context, p *pool, limit time.Duration,
	try func(context.Context, *pgx.Conn) (T, error),
) (T, error) {
	return campaign.Attempt(ctx, limit, func(ctx context.Context) (T, error) {
		return use(ctx, p, try)
	})
}

// use makes one round trip on a connection of a pool.
func use[T any](
	ctx context.Context, p *pool, try func(context.Context, *pgx.Conn) (T, error),
) (answer T, err error) {
	err = p.do(ctx, func(conn *pgx.Conn) error {
		answer, err = try(ctx, conn)
		return explain(err)
	})
	return answer, err
}

// perform calls a function of the schema that returns nothing.
func perform(call string, args ...any) func(context.Context, *pgx.Conn) (struct{}, error) {
	return func(ctx context.Context, conn *pgx.Conn) (none struct{}, err error) {
		_, err = conn.Exec(ctx, "select ringfence."+call, args...)
		return none, err
	}
}

// row calls a function of the schema that returns one row.
func row(ctx context.Context, conn *pgx.Conn, into []any, call string, args ...any) error {
	rows, err := query(ctx, conn, call, args...)
	if err != nil {
		return err
	}
	_, err = pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) (none struct{}, err error) {
		return none, r.Scan(into...)
	})
	return err
}

// unheld makes a call for resources, and ends who holds them up: see pgschema.Unheld.
func unheld(ctx context.Context, conn *pgx.Conn, resources []string, call func() error) error {
	exec := func(sql string, args ...any) error {
		_, err := conn.Exec(ctx, sql, args...)
		return err
	}
	return pgschema.Unheld(ctx, resources, exec, call)
}

// query calls a function of the schema. It asks for the answer in the binary format, which does not
// depend on settings such as bytea_output; the driver would ask for text, as nothing is prepared.
func query(ctx context.Context, conn *pgx.Conn, call string, args ...any) (pgx.Rows, error) {
	var b pgx.ExtendedQueryBuilder
	if err := b.Build(conn.TypeMap(), nil, args); err != nil {
		return nil, err
	}
	answer := conn.PgConn().ExecParams(ctx, "select * from ringfence."+call, b.ParamValues, nil,
		b.ParamFormats, []int16{pgx.BinaryFormatCode})
	return pgx.RowsFromResultReader(conn.TypeMap(), answer), nil
}

// refused reports an error that retrying cannot fix. Once the coordinator is open, the database and
// the login were right, so they may be again: somebody is putting the database back, or changing a
// password.
func (c *Coordinator) refused(err error) bool {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if answered && c.opened.Load() && pgcause.OfClass(pg, "3D", "28") {
		return false
	}
	return refused(err)
}

// refused is Coordinator.refused while it opens.
func refused(err error) bool {
	var setup *fence.SetupError
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, errStandby), errors.Is(err, errReadOnly):
		return false // a failover may be under way
	case errors.Is(err, fence.ErrExpired):
		return false // the next session installs the schema if it is gone
	case errors.As(err, &setup):
		return true
	case !errors.As(err, &pg):
		return false
	}
	// Connections, failovers, deadlocks, resources, limits, locks, shutdowns, disks. An error without
	// an SQLSTATE comes from something between us and the server. RF006: somebody holds the election
	// up, until an operator ends that.
	passes := pg.Code == "RF006" ||
		pgcause.OfClass(pg, "08", "25", "40", "53", "54", "55", "57", "58", "XX")
	return !passes && pg.Code != ""
}

// ends reports an answer after which a call is not repeated: the session or the candidate is gone,
// or a change of documents was decided, or may have been made.
func ends(err error) bool {
	return errors.Is(err, errOver) || errors.Is(err, errGone) ||
		errors.Is(err, documents.ErrConflict) || errors.Is(err, documents.ErrUnknown)
}

// broken reports an error after which a connection is of no use, and other connections to the same
// server probably are of none either.
func broken(err error) bool {
	var pg *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, errOver), errors.Is(err, errGone), errors.Is(err, errNotInstalled),
		errors.Is(err, documents.ErrConflict):
		return false
	case !errors.As(err, &pg):
		return true
	}
	return errors.Is(err, errStandby) || pgcause.OfClass(pg, "57", "25")
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
	case "RFE01": // in recovery
		return fmt.Errorf("%w: %w", errStandby, err)
	case "25006": // read-only
		return fmt.Errorf("%w: %w", errReadOnly, err)
	case "RFE02":
		return setup(pg.Message, pg.Hint)
	case "22P05": // untranslatable_character
		return setup("the database's encoding lacks a character, as of a holder's name: "+pg.Message,
			"use ASCII names, or a database with ENCODING 'UTF8'")
	case "42501": // insufficient_privilege
		return setup("the role lacks a privilege for elections: "+pg.Message,
			"an operator runs guard install in that database, or Install of fence/postgres, "+
				"with this role among those that hold elections")
	case "53300": // too_many_connections
		return fmt.Errorf("%w: raise max_connections, or the CONNECTION LIMIT of the role or the "+
			"database; a process needs at least 2 connections, and uses up to 12", pgcause.Plain(err))
	case "08P01":
		switch _, refused, _ := strings.Cut(pg.Message, "unsupported startup parameter"); {
		case strings.HasPrefix(refused, ": options"), strings.HasPrefix(refused, " in options"):
			return setup("there is a pooler between us and Postgres: "+pg.Message,
				"remove what the URL has as options, or PGOPTIONS has in the environment, "+
					"or name it in the pooler's ignore_startup_parameters")
		case refused != "":
			return setup("there is a pooler between us and Postgres: "+pg.Message,
				"add listen=off to the options of the URL, "+
					"as in postgres://app@pooler/shop?listen=off")
		}
	}
	return pgcause.Plain(err)
}
