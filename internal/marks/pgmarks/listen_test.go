package pgmarks

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// All databases of a server share one queue of notices.
func TestAnIdleListenerHoldsBackNoNotices(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	d.roles(t)
	s := d.open(t, Options{})
	s.listenIdle = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { s.Listen(ctx, func(fence.Resource) {}) })
	defer listening.Wait()
	defer cancel()
	const listens = "select count(*)::text from pg_stat_activity where application_name = " +
		"'ringfence listen' and state = 'idle' and datname = current_database()"
	if !poll.Until(time.Minute, func() bool { return d.list(t, listens)[0] != "0" }) {
		t.Fatal("nothing listens")
	}
	serverstest.AwaitNoticesRead(t, pg)
}

func TestListeningEndsWhenTheDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Listen(t.Context(), func(fence.Resource) {})
	}()
	listens := "select count(*)::text from pg_stat_activity where query = 'listen ringfence' and " +
		"datname = current_database()"
	if !poll.Until(time.Minute, func() bool { return d.list(t, listens)[0] != "0" }) {
		t.Fatal("nobody listens")
	}
	c := pgtest.Connect(t, serverstest.SharedPostgres(t).URL("postgres", "postgres"))
	if _, err := c.Exec(t.Context(), "drop database "+pgx.Identifier{d.name}.Sanitize()+
		" with (force)"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it goes on asking for a database that is not there")
	}
}
