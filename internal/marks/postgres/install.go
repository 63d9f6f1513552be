package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// Version is the version of the schema that this program needs. A change of tables needs a new
// numbered file and a new version. Every install replaces the functions.
const Version = 10

//go:embed sql/*.sql
var sqlFiles embed.FS

// migrations run in this order. Each is safe to repeat.
var migrations = []string{
	"sql/001_schema.sql", "sql/002_checkpoint.sql", "sql/003_run.sql", "sql/004_attachment.sql",
	"sql/005_sealed.sql", "sql/006_authorization.sql", "sql/007_leaving.sql",
	"sql/008_candidate.sql", "sql/009_boot.sql",
}

// functions run after the migrations, in this order.
var functions = []string{
	"sql/server.sql", "sql/hidden.sql", "sql/enter.sql", "sql/functions.sql", "sql/authorization.sql", "sql/attach.sql",
	"sql/checkpoint.sql", "sql/seal.sql", "sql/contract.sql", "sql/grants.sql", "sql/stamp.sql",
}

// Roles are who uses the schema.
type Roles struct {
	Guard   string   // the guard logs in as this role
	Leaders []string // programs that keep checkpoints in this database
	Holders []string // programs that get tokens by SQL
}

// SQL returns the SQL that Install runs, as one transaction, for people who want to read it first and run
// it with psql.
func (r Roles) SQL() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%sselect pg_advisory_xact_lock(%d);\n\n%s", pgschema.Begin, installLock, pgschema.Collate("ringfence"))
	fill := strings.NewReplacer("{{guard}}", identifier(r.Guard), "{{guard literal}}", literal(r.Guard),
		"{{version}}", strconv.Itoa(Version))
	for _, name := range slices.Concat(migrations, functions) {
		if err := appendFile(&b, name, fill); err != nil {
			return "", err
		}
	}
	for _, grant := range []struct {
		file, name string
		roles      []string
	}{
		{"sql/leader.sql", "{{leader}}", r.Leaders}, {"sql/holder.sql", "{{holder}}", r.Holders},
	} {
		for _, role := range grant.roles {
			if err := appendFile(&b, grant.file, strings.NewReplacer(grant.name, identifier(role))); err != nil {
				return "", err
			}
		}
	}
	b.WriteString("commit;\n")
	return b.String(), nil
}

// appendFile appends a file of sql/, with its {{names}} replaced. This is no text/template: a program
// with that in it keeps every method of every type, 10 MB more.
func appendFile(b *strings.Builder, name string, fill *strings.Replacer) error {
	text, err := sqlFiles.ReadFile(name)
	if err != nil {
		return err
	}
	b.WriteString(fill.Replace(string(text)))
	b.WriteByte('\n')
	return nil
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// installLock is the advisory lock that an installation holds, so that two do not run at once.
const installLock = 0x72696e67

// Install is Roles.Install for a guard and its leaders, without its warnings.
func Install(ctx context.Context, url, guard string, leaders ...string) error {
	_, err := Roles{Guard: guard, Leaders: leaders}.Install(ctx, url)
	return err
}

// warned is the SQLSTATE of the warnings of an installation.
const warned = "01RF0"

// Install creates or upgrades the schema ringfence in the database of url. It runs one transaction and
// may be repeated: it changes no mark. The role of url must be able to create a schema in the database.
// The warnings say what else is missing, one text each: a managed service may not let the role of url
// grant what a guard needs.
func (r Roles) Install(ctx context.Context, url string) (warnings []string, err error) {
	text, err := r.SQL()
	if err != nil {
		return nil, err
	}
	to, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	to.cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == warned {
			warnings = append(warnings, n.Message+" ("+n.Hint+")")
		}
	}
	conn, err := to.logIn(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err = newerInstalled(ctx, conn); err == nil {
		warnings = nil
		err = runInstall(ctx, conn, text)
	}
	if err != nil {
		return nil, fmt.Errorf("install: nothing was changed: %w%s", err, installHint(err, r.Guard))
	}
	return warnings, nil
}

// installTries is how often an installation is begun. Sessions that lock tables of the schema in
// another order can make the server end it, and it changes nothing until it commits.
const installTries = 5

func runInstall(ctx context.Context, conn *pgx.Conn, text string) error {
	for n := 1; ; n++ {
		_, err := conn.PgConn().Exec(ctx, text).ReadAll()
		if !deadlocked(err) || n == installTries {
			return err
		}
		if _, err := conn.Exec(ctx, "rollback"); err != nil {
			return err
		}
		backoff.Pause(ctx, backoff.After(n, backoff.Min, time.Second))
	}
}

// deadlocked reports whether the server has ended a transaction because of a deadlock.
func deadlocked(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "40P01"
}

// Connect opens a connection for one command of an operator.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	to, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return to.logIn(ctx, url)
}

func (to *Target) logIn(ctx context.Context, url string) (*pgx.Conn, error) {
	to.cfg.RuntimeParams["application_name"] = "ringfence command" // not that of a guard, which Uninstall looks for
	conn, err := pglogin.Connect(ctx, to.cfg, to.password)
	if err != nil {
		return nil, fmt.Errorf("cannot log in at %s: %w", Address(url), err)
	}
	return conn, nil
}

// newerInstalled refuses to replace the functions of a newer version.
func newerInstalled(ctx context.Context, conn *pgx.Conn) error {
	var installed bool
	err := conn.QueryRow(ctx,
		"select pg_catalog.to_regclass('ringfence.installation') is not null").Scan(&installed)
	if err != nil || !installed {
		return err
	}
	version := 0
	err = conn.QueryRow(ctx,
		"select coalesce(pg_catalog.max(version), 0) from ringfence.installation").Scan(&version)
	if err == nil && version > Version {
		return fmt.Errorf("the database has schema version %d, this program knows %d: "+
			"use the newer program", version, Version)
	}
	return err
}

func installHint(err error, guard string) string {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	switch pg.Code {
	case "42704": // undefined_object: the role
		return fmt.Sprintf(" (create the roles first, such as CREATE ROLE %s LOGIN PASSWORD '…')",
			identifier(guard))
	case "40P01", "55P03": // deadlock_detected, lock_not_available
		return " (sessions hold locks on the schema ringfence: try again; pg_locks says which)"
	case "42501": // insufficient_privilege
		return " (set GUARD_POSTGRES_ADMIN to the URL of a role that owns the database, " +
			"or has CREATE on it; an installation is repeated by the role that owns the schema; or give the output of guard install --print to somebody who can)"
	}
	return pgschema.Advice(err)
}
