package pgmarks

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/postgres/pgschema"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Authorizer changes who may claim what. Its connection is that of a role that owns the schema, or
// of a superuser: the guard's own role may not change it.
type Authorizer struct{ conn *pgx.Conn }

var _ marks.Authorizer = (*Authorizer)(nil)

// OpenAuthorizer connects to the database of url and checks that it has this version of the schema.
func OpenAuthorizer(ctx context.Context, url string) (*Authorizer, error) {
	conn, err := Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	a := &Authorizer{conn}
	var version int
	if err := conn.QueryRow(ctx, "select ringfence.version()").Scan(&version); err != nil {
		a.Close()
		return nil, explain(err)
	}
	if version != pgschema.Version {
		a.Close()
		return nil, refusal.OtherVersion(version, pgschema.Version)
	}
	return a, nil
}

// Close closes the connection.
func (a *Authorizer) Close() { _ = a.conn.Close(context.Background()) }

// Authorization implements marks.Authorizer.
func (a *Authorizer) Authorization(ctx context.Context) (all marks.Authorization, err error) {
	if err = a.conn.QueryRow(ctx, "select ringfence_private.authorizing()").Scan(&all.On); err != nil {
		return all, explain(err)
	}
	rows, err := a.conn.Query(ctx, `select a.role, a.pattern,
	        case when a.written is distinct from a.xmin then 'it is a copy'
	             when not ringfence.counts(a.role, a.role_id, a.database_id)
	             then 'the role or the database is another one, or has another name' else '' end
	   from ringfence_private.allowed a order by a.role, a.pattern`)
	if err != nil {
		return all, explain(err)
	}
	all.Allowed, err = pgx.CollectRows(rows,
		func(r pgx.CollectableRow) (row marks.Allowed, err error) {
			return row, r.Scan(&row.Role, &row.Pattern, &row.Why)
		})
	if err != nil {
		return all, explain(err)
	}
	rows, err = a.conn.Query(ctx, `select s.resource, coalesce(a.usename, ''), s.pid,
	        concat_ws(', ', coalesce(host(a.client_addr), '[local]'), nullif(a.application_name, ''))
	   from ringfence_private.session s
	   join pg_stat_activity a on a.pid = s.pid and a.backend_start = s.backend_start
	  where s.resource <> '*' and ringfence.forbidden(a.usesysid, array[s.resource]) is not null
	  order by s.resource, a.usename, s.pid`)
	if err != nil {
		return all, explain(err)
	}
	all.Strangers, err = pgx.CollectRows(rows,
		func(r pgx.CollectableRow) (s marks.Stranger, err error) {
			return s, r.Scan(&s.Resource, &s.Role, &s.ID, &s.Client)
		})
	return all, explain(err)
}

// writing is for transactions of operators, whatever the defaults of their role are.
var writing = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// Allow implements marks.Authorizer, in one transaction.
func (a *Authorizer) Allow(ctx context.Context, role string, all ...marks.Pattern) error {
	return explain(pgx.BeginTxFunc(ctx, a.conn, writing, func(tx pgx.Tx) error {
		for _, p := range all {
			if _, err := tx.Exec(ctx, "select ringfence.allow($1::name, $2::text)", role,
				string(p)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Forbid implements marks.Authorizer, in one transaction.
func (a *Authorizer) Forbid(
	ctx context.Context, role string, all ...marks.Pattern,
) (n int, err error) {
	err = pgx.BeginTxFunc(ctx, a.conn, writing, func(tx pgx.Tx) error {
		if len(all) == 0 {
			return tx.QueryRow(ctx, "select ringfence.forbid($1::name, null::text)", role).Scan(&n)
		}
		for _, p := range all {
			var removed int
			if err := tx.QueryRow(ctx, "select ringfence.forbid($1::name, $2::text)", role,
				string(p)).Scan(&removed); err != nil {
				return err
			}
			n += removed
		}
		return nil
	})
	return n, explain(err)
}

// Authorize implements marks.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, on bool) error {
	return explain(pgx.BeginTxFunc(ctx, a.conn, writing, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select ringfence.authorize($1::boolean)", on)
		return err
	}))
}
