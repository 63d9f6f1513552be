package serverstest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// SendNotices sends notices in a database in which nothing listens: more than one page of the
// server's queue, and fewer than those after which the server wakes the listeners of other
// databases. unread returns whether some listener of the server has not read all of them.
func SendNotices(t testing.TB, pg *servers.Postgres) (unread func() bool) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.URL("postgres", FreshDatabase(t, pg)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for range 3 {
		if _, err := conn.Exec(t.Context(), "select pg_notify('elsewhere', $1)",
			strings.Repeat("x", 7000)); err != nil {
			t.Fatal(err)
		}
	}
	return func() (unread bool) {
		t.Helper()
		if err := conn.QueryRow(t.Context(),
			"select pg_notification_queue_usage() > 0").Scan(&unread); err != nil {
			t.Fatal(err)
		}
		return unread
	}
}

// AwaitNoticesRead sends notices, and fails the test unless every listener of the server reads them
// soon.
func AwaitNoticesRead(t testing.TB, pg *servers.Postgres) {
	t.Helper()
	unread := SendNotices(t, pg)
	for deadline := time.Now().Add(time.Minute); unread(); {
		if time.Now().After(deadline) {
			t.Fatal("a listener holds back the queue of notices")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
