package pgmarks

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// Databases lists the databases of a server that take connections of the URL's role. It leaves out
// templates: what was installed there would be in every database that is created from them. A limit
// of -2 marks a database whose DROP was interrupted; it cannot be used again.
func Databases(ctx context.Context, rawURL string) ([]string, error) {
	conn, err := Connect(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// The list is the server's, so its names have the bytes that their database has given them.
	rows, err := conn.Query(ctx, `select pg_catalog.convert_to(d.datname::pg_catalog.text, 'SQL_ASCII') from pg_catalog.pg_database d
		where d.datallowconn and d.datconnlimit <> -2 and not d.datistemplate and pg_catalog.has_database_privilege(d.oid, 'connect')
		order by d.datname`)
	if err != nil {
		return nil, fmt.Errorf("list the databases of the server: %w", err)
	}
	names, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var name []byte
		err := r.Scan(&name)
		return string(name), err
	})
	if err != nil {
		return nil, fmt.Errorf("list the databases of the server: %w", err)
	}
	return names, nil
}

// Image returns what is installed in the database of a URL, as pgschema.Image does.
func Image(ctx context.Context, rawURL string) (string, error) {
	conn, err := Connect(ctx, rawURL)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgschema.Image(ctx, conn)
}

// Installed reports whether the database of a URL has the schema, of whatever version, or has had
// it before somebody dropped it.
func Installed(ctx context.Context, rawURL string) (installed bool, err error) {
	conn, err := Connect(ctx, rawURL)
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `select coalesce(pg_catalog.to_regnamespace('ringfence'),
		pg_catalog.to_regnamespace('ringfence_installed')) is not null`).Scan(&installed)
	return installed, err
}
