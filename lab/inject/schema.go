package inject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/system"
)

// saved are the tables in a dump that decide who may write.
var saved = []string{"installation", "mark", "gate"}

// asSuperuser runs transactions directly at Postgres.
func (r *Injector) asSuperuser(ctx context.Context, transactions ...string) error {
	return system.Exec(ctx, r.sys.Addresses().Postgres, transactions...)
}

// queryRow reads one row directly from Postgres, as the superuser.
func (r *Injector) queryRow(ctx context.Context, sql string, into ...any) error {
	conn, err := pgx.Connect(ctx, r.sys.Addresses().Postgres)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, sql).Scan(into...)
}

// saveMarks does what pg_dump of Ringfence's tables would do.
func (r *Injector) saveMarks(ctx context.Context) error {
	sql := "drop schema if exists saved cascade; create schema saved;"
	for _, table := range saved {
		sql += fmt.Sprintf("create table saved.%[1]s as table ringfence_private.%[1]s;", table)
		if table != "installation" { // DROP SCHEMA would take a column of our domain along
			sql += fmt.Sprintf("alter table saved.%s alter column resource type text;", table)
		}
	}
	return r.asSuperuser(ctx, sql)
}

// restoreMarks does what pg_restore --clean would do: the schema is new, with the old rows in it.
func (r *Injector) restoreMarks(ctx context.Context) error {
	if err := r.reinstall(ctx); err != nil {
		return err
	}
	sql := ""
	for _, table := range saved {
		sql += fmt.Sprintf("delete from ringfence_private.%[1]s;"+
			"insert into ringfence_private.%[1]s select * from saved.%[1]s;", table)
	}
	if r.Topology.SchemaFlaw == string(flaw.CopiedMark) {
		sql += flaw.Originals
	}
	if err := r.asSuperuser(ctx, sql); err != nil {
		return err
	}
	return r.operate(ctx, "install")
}

// reinstall does what an administrator does who thinks that the schema is broken. Sessions live on.
func (r *Injector) reinstall(ctx context.Context) error {
	if err := r.dropSchema(ctx); err != nil {
		return err
	}
	if r.Topology.SchemaFlaw != string(flaw.BelievedRegistry) {
		return r.operate(ctx, "install")
	}
	return r.withGuardsFrozen(ctx, func() error {
		if err := r.operate(ctx, "install"); err != nil {
			return err
		}
		return r.asSuperuser(ctx, flaw.Believe)
	})
}

// withGuardsFrozen freezes the guards meanwhile, so that none of them counts a new registry as
// lost.
func (r *Injector) withGuardsFrozen(ctx context.Context, do func() error) (err error) {
	for _, guard := range r.Topology.GuardNames() {
		if err := r.sys.Pause(ctx, guard); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.sys.Resume(ctx, guard)) }()
	}
	return do()
}

// dropSchema retries while guards and leaders use the schema.
func (r *Injector) dropSchema(ctx context.Context) error {
	for {
		err := r.asSuperuser(ctx, "set lock_timeout = '1s'; drop schema ringfence, ringfence_private "+
			"cascade")
		pg, ok := errors.AsType[*pgconn.PgError](err)
		// deadlock_detected, lock_not_available
		if !ok || pg.Code != "40P01" && pg.Code != "55P03" {
			return err
		}
		if err := system.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("drop schema ringfence: %w", err)
		}
	}
}
