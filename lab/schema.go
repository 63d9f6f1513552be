package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/lab/flaw"
)

// saved are the tables of the schema that a dump has rows of, but for those that keep nothing of who may write.
var saved = []string{"installation", "mark", "gate"}

// asSuperuser runs statements as one transaction of its own each time, straight at Postgres.
func (r *run) asSuperuser(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, r.sys.Addresses().Postgres)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// saveMarks is pg_dump of what Ringfence keeps.
func (r *run) saveMarks(ctx context.Context) error {
	sql := "drop schema if exists saved cascade; create schema saved;"
	for _, table := range saved {
		sql += fmt.Sprintf("create table saved.%[1]s as table ringfence.%[1]s;", table)
	}
	return r.asSuperuser(ctx, sql)
}

// restoreMarks is pg_restore --clean of it: the schema is made anew, and the old rows are in it.
func (r *run) restoreMarks(ctx context.Context) error {
	if err := r.reinstall(ctx); err != nil {
		return err
	}
	sql := ""
	for _, table := range saved {
		sql += fmt.Sprintf("delete from ringfence.%[1]s; insert into ringfence.%[1]s select * from saved.%[1]s;", table)
	}
	if r.Topology.SchemaFlaw == string(flaw.CopiedMark) {
		sql += flaw.Originals
	}
	return r.asSuperuser(ctx, sql)
}

// reinstall is what an administrator does who takes the schema for broken. Sessions live on.
func (r *run) reinstall(ctx context.Context) error {
	if err := r.dropSchema(ctx); err != nil {
		return err
	}
	if r.Topology.SchemaFlaw != string(flaw.BelievedRegistry) {
		return r.operate(ctx, "install")
	}
	believed := make(chan error, 1)
	go func() { believed <- r.believe(ctx) }()
	return errors.Join(r.operate(ctx, "install"), <-believed)
}

// believe tries again until the schema is there: a guard that finds it first counts the registry as lost.
func (r *run) believe(ctx context.Context) error {
	for {
		err := r.asSuperuser(ctx, flaw.Believe)
		if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
			return err
		}
		if err := pass(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("believe the registry: %w", err)
		}
	}
}

// dropSchema tries again where guards and leaders, who use the schema meanwhile, are in the way.
func (r *run) dropSchema(ctx context.Context) error {
	for {
		err := r.asSuperuser(ctx, "set lock_timeout = '1s'; drop schema ringfence cascade")
		pg, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || pg.Code != "40P01" && pg.Code != "55P03" { // deadlock_detected, lock_not_available
			return err
		}
		if err := pass(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("drop schema ringfence: %w", err)
		}
	}
}
