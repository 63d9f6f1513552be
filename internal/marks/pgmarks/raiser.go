package pgmarks

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Raiser raises marks for a new leader, through a guard or in a database that has the schema.
type Raiser struct {
	URL string
	// Authority confirms the claim before Raise raises a mark without a guard. Set it to
	// marks.Elected with the coordinator at which the term was won. When it is nil, the claim is
	// believed, unless the mark may have been lost.
	Authority marks.Authority
	// Kept keeps the connection of a raise without a guard for the next one. Without it each raise
	// opens its own.
	Kept *marks.StoreCache
}

// NewRaiser returns a Raiser for the guard or database at url.
func NewRaiser(url string) fence.Raiser { return Raiser{URL: url} }

// Raise implements fence.Raiser. It opens a session under the claim. Through a guard nothing more
// is needed: the guard admits nobody before the mark is raised and older sessions are gone. If the
// session is not a guard's, the database was reached directly, and Raise does the guard's work
// itself, with the rights of a program that may lead (Roles.Leaders).
func (r Raiser) Raise(ctx context.Context, c fence.Claim) error {
	return r.Kept.Raise(ctx, r.Authority, c, r.Present, func() (marks.Reached, error) {
		return Open(r.URL, Options{Connections: 1, program: true})
	})
}

// Present opens a session under the claim, and reports whether a guard has admitted it.
func (r Raiser) Present(ctx context.Context, c fence.Claim) (guarded bool, err error) {
	cfg, err := pgx.ParseConfig(r.URL)
	if err != nil {
		return false, fmt.Errorf("not a Postgres URL: %w", err)
	}
	source, err := pglogin.Prepare(cfg)
	if err != nil {
		return false, err
	}
	cfg.RuntimeParams["application_name"] = c.Holder
	cfg.RuntimeParams["options"] = refusal.StartupOption(cfg.RuntimeParams["options"], c)
	conn, err := pglogin.Connect(ctx, cfg, source)
	if err != nil {
		return false,
			fmt.Errorf("open a session at %s: %w", Address(r.URL), pgcause.Plain(Refused(err, c)))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if guarded, err = Held(ctx, conn, c); err != nil {
		return false, fmt.Errorf("at %s: %w", Address(r.URL), err)
	}
	return guarded, nil
}

// Held reports whether a guard has admitted a session under the claim, in one round trip.
func Held(ctx context.Context, conn *pgx.Conn, c fence.Claim) (held bool, err error) {
	err = conn.QueryRow(ctx, `select ringfence.holds($1::text, $2::bigint)`, pgx.QueryExecModeExec,
		string(c.Resource), int64(c.Token)).Scan(&held)
	return held, Explain(err, c)
}

// Refused turns an error of a guard or of the schema's functions back into the refusal it was, so
// that errors.Is(err, fence.ErrStale) works. c is the claim that was presented; if the error names
// another claim, the refusal has that one. Refused returns other errors unchanged.
func Refused(err error, c fence.Claim) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refusal.OfSQLState(pg.Code) == "" {
		return err
	}
	r := &fence.Refusal{
		Reason: refusal.OfSQLState(pg.Code), Claim: c, Cause: err,
		Message: pg.Message, Detail: pg.Detail, Hint: pg.Hint,
	}
	refusal.Fields{
		Schema: pg.SchemaName, Table: pg.TableName,
		Column: pg.ColumnName, Constraint: pg.ConstraintName,
	}.Fill(r)
	return r
}
