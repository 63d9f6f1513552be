package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// InstallSQL returns the SQL that Install runs, as one transaction, for people who want to read it
// first and run it with psql. roles are those of the programs that take part in elections or ask
// who leads. The role that installs owns the schema and needs no mention.
func InstallSQL(roles ...string) string { return pgschema.Roles{Leaders: roles}.SQL() }

// Install creates the schemas in the database, or replaces their functions, of url, for the roles
// of InstallSQL. It runs one transaction and may be repeated: elections go on. The role of url must
// be allowed to create a schema in the database. If it may not, and names no roles, what another
// role has installed is left as it is, if it is of this version and the role may take part.
func Install(ctx context.Context, url string, roles ...string) error {
	a, err := parseURL(url)
	if err != nil {
		return err
	}
	conn, err := pglogin.Connect(ctx, a.cfg, a.password)
	if err != nil {
		return fmt.Errorf("install: %w", explain(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return install(ctx, conn, roles...)
}

func install(ctx context.Context, conn *pgx.Conn, roles ...string) error {
	if _, err := installed(ctx, conn); err != nil && !errors.Is(err, errNotInstalled) {
		return fmt.Errorf("install: %w", err)
	}
	err := pgschema.Roles{Leaders: roles}.Install(ctx, conn)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42501" && len(roles) == 0 &&
		usable(ctx, conn) {
		return nil
	}
	if errors.Is(err, pgschema.ErrNewer) {
		return tooNew(err)
	}
	if err != nil {
		return fmt.Errorf("install: nothing was changed: %w", explain(err))
	}
	return nil
}

// usable reports whether another role has installed what this program needs, for the role of the
// connection too.
func usable(ctx context.Context, conn *pgx.Conn) bool {
	if _, err := conn.Exec(ctx, "rollback"); err != nil {
		return false
	}
	var may bool
	version, err := installed(ctx, conn)
	if err == nil {
		err = conn.QueryRow(ctx, "select pg_catalog.has_function_privilege('ringfence.open_lease(text, "+
			"bigint)', 'execute')").Scan(&may)
	}
	return err == nil && may && version == pgschema.Version
}

// installed returns the version of the schema, or errNotInstalled.
func installed(ctx context.Context, conn *pgx.Conn) (version int, err error) {
	var standby bool
	err = conn.QueryRow(ctx, "select pg_catalog.pg_is_in_recovery()").Scan(&standby)
	if err != nil {
		return 0, explain(err)
	}
	if standby {
		return 0, errStandby
	}
	err = conn.QueryRow(ctx, "select coalesce(ringfence.version(), 0)").Scan(&version)
	return version, explain(err)
}

func tooNew(err error) error {
	return &fence.SetupError{What: err.Error(), Hint: "use the newer program", Cause: err}
}
