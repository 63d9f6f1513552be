package system

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Exec connects to Postgres and runs each string as one transaction, which may have several
// statements.
func Exec(ctx context.Context, url string, transactions ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range transactions {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(sql), err)
		}
	}
	return nil
}

// EndStream stops the stream to a standby of Postgres, also after a restart, and returns once it
// has ended. The setting primary_conninfo must not be on the command line.
func EndStream(ctx context.Context, standby string) error {
	return Exec(ctx, standby, "alter system set primary_conninfo = ''", "select pg_reload_conf()",
		`do $$ begin
			while exists (select from pg_stat_wal_receiver) loop perform pg_sleep(0.01); end loop;
		end $$`)
}

// AwaitStream returns once a standby of Postgres streams.
func AwaitStream(ctx context.Context, standby string) error {
	return Exec(ctx, standby, `do $$ begin
		while not exists (select from pg_stat_wal_receiver where status = 'streaming')
		loop perform pg_sleep(0.01); end loop;
	end $$`)
}
