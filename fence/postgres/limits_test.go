package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// The clock steps back by an hour, and then the leader is cut off. To step the clock of a server is
// to have its leases end later.
func TestALeaseFromBeforeTheClockSteppedBackEndsInTime(t *testing.T) {
	t.Parallel()
	for name, stands := range map[string]bool{
		"a candidate that waits": true, "a candidate that comes": false,
	} {
		t.Run(name, func(t *testing.T) {
			d := fresh(t)
			r := serverstest.NewRelay(t, d.pg.Addr())
			c, other := openWith(t, d.through(r), 2*time.Second, nil),
				openWith(t, d.url(), 2*time.Second, nil)
			electiontest.Win(t, c, "orders", "a")
			won := electiontest.Crowd(t, other, "stock", 0)
			if stands {
				won = electiontest.Crowd(t, other, "orders", 1)
				electiontest.Queued(t, other, "orders", 2)
			}
			r.Hold()
			defer r.Pass()
			d.sql(t, `update ringfence_private.lease set expires_at = expires_at + interval '1 hour'
			           where id = $1`, current(c).id)
			if !stands {
				won = electiontest.Crowd(t, other, "orders", 1)
			}
			electiontest.Next(t, won)
		})
	}
}

// Postgres 17 is the first server whose queue a test can fill: in others it has 8 GB.
func TestAFullQueueOfNoticesStopsNoElection(t *testing.T) {
	t.Parallel()
	d := database{pg: serverstest.SharedPostgres(t), name: "postgres"}
	if d.number(t, "select current_setting('server_version_num')::integer") < 170000 {
		t.Skip("the size of the queue of notices cannot be set before Postgres 17")
	}
	d.pg = serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_notify_queue_pages": "64"},
	})
	c, other := openWith(t, d.url(), 10*time.Second, nil), openWith(t, d.url(), 10*time.Second, nil)
	leader := electiontest.Win(t, c, "orders", "a")
	won := electiontest.Crowd(t, other, "orders", 1)
	electiontest.Queued(t, c, "orders", 2)
	fillNotices(t, d)
	must.Report(t, leader.Acknowledge(t.Context()))
	d.expired(t, current(c))
	next := electiontest.Next(t, won)
	must.Report(t, next.Resign(t.Context()))
	electiontest.Win(t, c, "orders", "a")
}

// fillNotices fills the queue: a session that listens has left a transaction open.
func fillNotices(t *testing.T, d database) {
	t.Helper()
	conn := func() *pgx.Conn {
		return pgtest.Connect(t, d.url())
	}
	_, err := conn().Exec(t.Context(), "listen x; begin; select 1")
	must.Succeed(t, err)
	for from := conn(); ; {
		_, err := from.Exec(t.Context(), "select pg_notify('x', repeat(md5(random()::text), 200)) from "+
			"generate_series(1, 10)")
		if pg, full := errors.AsType[*pgconn.PgError](err); full && pg.Code == "54000" {
			return
		}
		must.Succeed(t, err)
	}
}

func TestARoleWithFewConnectionsLeadsOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	for most, leads := range map[string]bool{"1": false, "2": true} {
		d := fresh(t)
		d.sql(t, "create role few"+d.name+most+" login connection limit "+most)
		must.Succeed(t, Install(t.Context(), d.url(), "few"+d.name+most))
		url := strings.Replace(d.url(), "postgres@", "few"+d.name+most+"@", 1)
		session := 6 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if !leads {
			session = 2 * time.Second
			var limit context.CancelFunc
			ctx, limit = context.WithTimeout(ctx, 5*time.Second) // ends the tries
			defer limit()
		}
		c := openWith(t, url, session, nil)
		term, err := c.Campaign(ctx, "orders", "a")
		switch {
		case !leads && (err == nil || !strings.Contains(err.Error(), "too many connections for role") ||
			!strings.Contains(err.Error(), "CONNECTION LIMIT")):
			t.Errorf("with %s: %v, %v", most, term, err)
		case leads && err != nil:
			t.Errorf("with %s: %v", most, err)
		case leads:
			first := term.Deadline()
			electiontest.Eventually(t, "the term goes on", func() bool {
				return term.Deadline().After(first.Add(4 * time.Second))
			})
		}
	}
}
