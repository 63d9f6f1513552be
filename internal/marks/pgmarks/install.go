package pgmarks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// Roles are who uses the schema, beside its owner.
type Roles pgschema.Roles

// SQL returns the SQL that Install runs, as one transaction, for people who want to read it first
// and run it with psql.
func (r Roles) SQL() string { return pgschema.Roles(r).SQL() }

// Check returns an error if a role has both kinds of rights.
func (r Roles) Check() error { return pgschema.Roles(r).Check() }

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// Install is Roles.Install for a guard and its leaders, without its warnings.
func Install(ctx context.Context, url, guard string, leaders ...string) error {
	_, err := Roles{Guard: guard, Leaders: leaders}.Install(ctx, url)
	return err
}

// Install creates the schemas of pgschema in the database of url, or replaces their functions. It
// runs one transaction and may be repeated: it changes no mark. The role of url must be able to
// create a schema in the database. The warnings say what else is missing, one text each: a managed
// service may not let the role of url grant what a guard needs.
func (r Roles) Install(ctx context.Context, url string) (warnings []string, err error) {
	to, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	to.cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == pgschema.Warned {
			warnings = append(warnings, n.Message+" ("+n.Hint+")")
		}
	}
	conn, err := to.logIn(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("install: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := pgschema.Roles(r).Install(ctx, conn); err != nil {
		return nil, fmt.Errorf("install: nothing was changed: %w%s", err, installHint(err, r.Guard))
	}
	return warnings, nil
}

// Connect opens a connection for one command of an operator.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	to, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return to.logIn(ctx, url)
}

// logInTime bounds the login of a command at each host, and there with TLS and without. A server
// that is frozen accepts connections and is silent.
const logInTime = 5 * time.Second

func (to *Target) logIn(ctx context.Context, url string) (*pgx.Conn, error) {
	// not that of a guard, which Uninstall looks for
	to.cfg.RuntimeParams["application_name"] = "ringfence command"
	if to.cfg.ConnectTimeout == 0 {
		to.cfg.ConnectTimeout = logInTime
	}
	conn, err := pglogin.Connect(ctx, to.cfg, to.password)
	if err != nil {
		return nil, fmt.Errorf("cannot log in at %s: %w", Address(url), err)
	}
	return conn, nil
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
			"or has CREATE on it; an installation is repeated by the role that owns the schema; or give " +
			"the output of guard install --print to somebody who can)"
	}
	return ""
}
