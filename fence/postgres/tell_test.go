package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// listens listens to channels, and returns how to wait for a notice.
func (d database) listens(
	t *testing.T, channels ...string,
) (hears func(what string) (payload string)) {
	t.Helper()
	conn := pgtest.Connect(t, d.url())
	for _, channel := range channels {
		_, err := conn.Exec(t.Context(), "listen "+pgx.Identifier{channel}.Sanitize())
		must.Succeed(t, err)
	}
	return func(what string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return n.Payload
	}
}

// Whoever watches a group need not look again and again.
func TestAMemberThatJoinsSendsANotice(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), time.Minute, nil)
	g, err := group.New(c, "crew")
	must.Succeed(t, err)
	hears := d.listens(t, electionChannel+string(g.Election()))
	for _, name := range []string{"the first, which leads", "another, which waits"} {
		m, err := g.Join(name, nil)
		must.Succeed(t, err)
		defer m.Leave()
		hears(name)
	}
}

func TestAChangeOfADocumentSendsANoticeAfterItsCommit(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), time.Minute, nil)
	hears := d.listens(t, channelOf("folder"))
	for range 3 {
		changes := []documents.Write{documents.Create("folder/a", nil), documents.Create("other/b", nil)}
		_, err := c.Documents().Change(t.Context(), documents.Change{Writes: changes})
		must.Succeed(t, err)
		if got := hears("a document is made"); got != "a" {
			t.Errorf("the notice is about %q", got)
		}
		changes = []documents.Write{documents.DeleteAny("folder/a"), documents.DeleteAny("other/b")}
		_, err = c.Documents().Change(t.Context(), documents.Change{Writes: changes})
		must.Succeed(t, err)
		hears("a document is deleted")
	}
}

// Transactions that send a notice commit one after the other, each with its own wait for the disk.
func TestWhatAJobWritesSendsNoNoticeInItsTransaction(t *testing.T) {
	t.Parallel()
	d := fresh(t)
	c := openWith(t, d.url(), time.Minute, nil)
	electiontest.Win(t, c, "stock", "a")
	// A session of no client: a beat would delete a candidate that its client does not know, with a
	// notice.
	const session = "nobodys"
	d.sql(t, `insert into ringfence_private.lease
		select (jsonb_populate_record(s, '{"id": "`+session+`"}')).* from ringfence_private.lease s`)
	channels := []string{electionChannel + "orders", sessionChannel + session, channelOf("folder")}
	hears := d.listens(t, channels...)
	for _, call := range []string{
		"nominate('" + session + "', 'x', 'orders', 'a')",
		"change_documents('{}', '{}', '{}', '{}', '{folder}', '{a}', '{0}', '{1}', array[''::bytea])",
		"resign('" + session + "', 'x')",
	} {
		d.sql(t, "select ringfence."+call)
	}
	if n := d.number(t, "select count(*) from ringfence_private.document"); n != 1 {
		t.Fatalf("there are %d documents, so this proves nothing", n)
	}
	for _, channel := range channels {
		d.sql(t, "select pg_notify($1, 'the first')", channel)
		if got := hears("a notice from here"); got != "the first" {
			t.Errorf("%s: a notice of %q comes first", channel, got)
		}
	}
}

// All databases of a server share one queue of notices.
func TestAnIdleCoordinatorHoldsBackNoNotices(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	c := openWith(t, d.url(), 2*time.Second, nil)
	heard := make(chan string, 1)
	s := c.listener.subscribe("ringfence_test", func(payload string) { heard <- payload })
	defer s.stop()
	<-heard // it listens
	serverstest.AwaitNoticesRead(t, pg)
}
