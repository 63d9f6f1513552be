package seal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Request says which tables to seal or to unseal.
type Request struct {
	Resource fence.Resource // whose leader may write; only for Protect
	Tables   []string       // as in SQL: entry, shop.entry, "Entry"; in public if no schema is named
	Schemas  []string       // every table in them
}

// Plan is what Protect or Unprotect would do.
type Plan struct {
	Tables []string // in the order in which they are changed
	Bare   []string // those among them that have no seal, when seals are taken off

	statements []string
}

// SQL returns the plan as one transaction, for people who want to read it first and run it with
// psql.
func (p *Plan) SQL() string {
	var b strings.Builder
	b.WriteString(pgschema.Begin)
	for _, s := range p.statements {
		b.WriteString(s + ";\n")
	}
	b.WriteString("commit;\n")
	return b.String()
}

// Run runs the plan. An error means that nothing was changed.
func (p *Plan) Run(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.PgConn().Exec(ctx, p.SQL()).ReadAll(); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return nil
}

func (p *Plan) add(format string, args ...any) {
	p.statements = append(p.statements, fmt.Sprintf(format, args...))
}

// planned returns the plan that f makes. none is the error of an empty one.
func planned(
	ctx context.Context, c *pgx.Conn, none string, f func(tx pgx.Tx, p *Plan) error,
) (*Plan, error) {
	p := &Plan{}
	err := looking(ctx, c, func(tx pgx.Tx) error { return f(tx, p) })
	if err == nil && len(p.Tables) == 0 {
		err = errors.New(none)
	}
	return p, err
}

// looking runs f in a transaction that changes nothing, if the schema ringfence has the version of
// this program (fence.ErrNotInstalled). In it, names without a schema mean only built-in functions
// and tables.
func looking(ctx context.Context, c *pgx.Conn, f func(tx pgx.Tx) error) error {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has changed nothing
	if _, err := tx.Exec(ctx, pgschema.Settings); err != nil {
		return err
	}
	if err := installed(ctx, tx); err != nil {
		return err
	}
	return f(tx)
}

func installed(ctx context.Context, tx pgx.Tx) error {
	var there bool
	err := tx.QueryRow(ctx, `select to_regproc('ringfence.version') is not null`).Scan(&there)
	if err != nil {
		return err
	}
	if !there {
		return refusal.NotInstalled("the database has no schema ringfence", nil)
	}
	var version int
	if err := tx.QueryRow(ctx, `select ringfence.version()`).Scan(&version); err != nil {
		return fmt.Errorf("read the version of the schema ringfence: %w", err)
	}
	if version != pgschema.Version {
		return refusal.OtherVersion(version, pgschema.Version)
	}
	return nil
}

// literal quotes a name so that it means the same under any standard_conforming_strings.
func literal(s string) string {
	quoted := "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
	if strings.Contains(s, `\`) {
		return "E" + quoted
	}
	return quoted
}
