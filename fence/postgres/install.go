package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// Version is the version of the schema that this program needs. Every install replaces the
// functions.
const Version = 6

var (
	//go:embed sql/schema.sql
	schemaSQL string
	//go:embed sql/functions.sql
	functionsSQL string
	//go:embed sql/holders.sql
	holdersSQL string
)

// installLock is the advisory lock that an installation holds, so that two do not run at once.
const installLock = 0x72696e68

const stamp = `
insert into ringfence_elections.installation (version) values (%d)
    on conflict (only_row) do update
   set version = excluded.version, installed_at = clock_timestamp();
`

const grant = `
grant usage on schema ringfence_elections to %[1]s;
grant execute on all functions in schema ringfence_elections to %[1]s;
`

// InstallSQL returns the SQL that Install runs, as one transaction, for people who want to read it
// first and run it with psql. roles are those of the programs that take part in elections or ask
// who leads. The role that installs owns the schema and needs no mention.
func InstallSQL(roles ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sselect pg_advisory_xact_lock(%d);\n\n%s", pgschema.Begin, installLock, pgschema.Collate("ringfence_elections"))
	b.WriteString(schemaSQL)
	b.WriteByte('\n')
	b.WriteString(holdersSQL)
	b.WriteString(functionsSQL)
	fmt.Fprintf(&b, stamp, Version)
	for _, role := range roles {
		fmt.Fprintf(&b, grant, pgx.Identifier{role}.Sanitize())
	}
	b.WriteString("\ncommit;\n")
	return b.String()
}

// Install creates or upgrades the schema ringfence_elections in the database of url, for the roles
// of InstallSQL. It runs one transaction and may be repeated: elections go on. The role of url must
// be allowed to create a schema in the database.
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
	version, err := installed(ctx, conn)
	switch {
	case err != nil && !errors.Is(err, errNotInstalled):
		return fmt.Errorf("install: %w", err)
	case version > Version:
		return tooNew(version)
	}
	if _, err := conn.PgConn().Exec(ctx, InstallSQL(roles...)).ReadAll(); err != nil {
		return fmt.Errorf("install: nothing was changed: %w%s", explain(err), pgschema.Advice(err))
	}
	return nil
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
	err = conn.QueryRow(ctx, "select coalesce(ringfence_elections.version(), 0)").Scan(&version)
	return version, explain(err)
}

func tooNew(version int) error {
	return &fence.SetupError{
		What: fmt.Sprintf("the schema ringfence_elections has version %d, this program knows %d",
			version, Version),
		Hint: "use the newer program",
	}
}
