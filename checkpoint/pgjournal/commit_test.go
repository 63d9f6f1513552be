package pgjournal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A commit that is logged looks for a cancellation behind it, and reports one although it has
// landed.
func TestACancellationBehindACommitChangesNothing(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{ // commit_delay needs fsync
		Settings: map[string]string{"fsync": "on"},
	})
	d := installedOn(t, pg)
	in := "alter role app in database " + pgx.Identifier{d.name}.Sanitize() + " set "
	d.exec(t, in+"commit_delay = 100000") // µs
	d.exec(t, in+"commit_siblings = 0")
	d.exec(t, in+"log_min_duration_statement = 0")
	admin, err := pgx.Connect(t.Context(), d.url("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	calls := 0
	cancelled := make(chan error, 1)
	task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		if calls++; calls == 1 {
			pid := tx.Conn().PgConn().PID()
			go func() {
				cancelled <- cancelCommit(t.Context(), admin, pid)
			}()
		}
		return s, insert(ctx, tx, "x")
	})
	task.Retry = checkpoint.Retry{Attempts: 5, Backoff: func(int) time.Duration {
		return time.Millisecond
	}}
	cp, err := lead(t, d.journal(t, pgjournal.Options{}), 1, task)
	if err != nil || cp.Status != checkpoint.Done || calls != 1 {
		t.Errorf("the step ran %d times: %s, %v", calls, cp.Status, err)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	if got := d.list(t, "select value from effect"); len(got) != 1 {
		t.Errorf("effects %v", got)
	}
}

// cancelCommit cancels the commit of a backend once it is under way.
func cancelCommit(ctx context.Context, admin *pgx.Conn, pid uint32) error {
	for ctx.Err() == nil {
		var cancelled bool
		err := admin.QueryRow(ctx, `select pg_cancel_backend(pid) from pg_stat_activity
			where pid = $1 and query = 'commit' and state = 'active'`, int64(pid)).Scan(&cancelled)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	return ctx.Err()
}

// An error of a trigger that runs at the commit is the step's own.
func TestADeferredTriggerThatFailsIsNoMissingSchema(t *testing.T) {
	t.Parallel()
	d := installed(t)
	d.exec(t, `create function failing() returns trigger language plpgsql as $$
		begin perform 1 from no_such_table; return null; end $$;
		create constraint trigger late after insert on effect deferrable initially deferred
		for each row execute function failing()`)
	task := one(func(ctx context.Context, tx pgx.Tx, s count) (count, error) {
		return s, insert(ctx, tx, "x")
	})
	_, err := lead(t, d.journal(t, pgjournal.Options{}), 1, task)
	if !errors.Is(err, checkpoint.ErrUncommitted) {
		t.Errorf("got %v", err)
	}
}
