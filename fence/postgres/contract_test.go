package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/jobs/jobstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestPostgresKeepsTheContract(t *testing.T) { fencetest.Run(t, harness(t, "")) }

func TestPollingKeepsTheContract(t *testing.T) { fencetest.Run(t, harness(t, "&listen=off")) }

func TestJobsKeepTheirContract(t *testing.T) { jobstest.Run(t, jobstest.On(harness(t, ""))) }

func TestTheContractFindsFlawsOnPostgres(t *testing.T) { fencetest.RunFlaws(t, harness(t, "")) }

// harness connects the contract to a database of its own.
func harness(t *testing.T, options string) fencetest.Fixture {
	t.Helper()
	h, _ := faultyHarness(t, options)
	return h
}

// faultyHarness also returns the faults of each client.
func faultyHarness(
	t *testing.T, options string,
) (fencetest.Fixture, func(elector.Coordinator) *faulty) {
	t.Helper()
	const timeout = 10 * time.Second // so that a busy machine does not expire what nobody cut
	d := fresh(t)
	// Calls that meet an installation can deadlock with it, and are repeated. Clients that open at
	// once would count such deadlocks.
	must.Succeed(t, Install(t.Context(), d.url()))
	t.Cleanup(func() {
		n := d.number(t,
			"select deadlocks from pg_stat_database where datname = current_database()")
		if n != 0 {
			t.Errorf("%d deadlocks", n)
		}
	})
	var mu sync.Mutex
	clients := map[elector.Coordinator]*faulty{}
	of := func(c elector.Coordinator) *faulty { mu.Lock(); defer mu.Unlock(); return clients[c] }
	return fencetest.Fixture{
		Open: func(t testing.TB) elector.Coordinator {
			f := &faulty{relay: serverstest.NewRelay(t, d.pg.Addr())}
			c := openWith(t, d.through(f.relay)+options, timeout, f.config)
			mu.Lock()
			defer mu.Unlock()
			clients[c] = f
			return c
		},
		SessionTimeout: timeout,
		Cut:            func(_ testing.TB, c elector.Coordinator) { of(c).relay.Hold() },
		Heal:           func(_ testing.TB, c elector.Coordinator) { of(c).relay.Pass() },
		Drop:           func(_ testing.TB, c elector.Coordinator) { of(c).relay.Drop() },
		Expire: func(t testing.TB, c elector.Coordinator) {
			if s := current(c.(*Coordinator)); s != nil { // else it has never campaigned
				d.sql(t, "delete from ringfence_private.lease where id = $1", s.id)
			}
		},
		LoseReply: func(_ testing.TB, c elector.Coordinator) { of(c).loseReply.Store(true) },
		Delete: func(t testing.TB, r fence.Resource, token fence.Token) {
			d.sql(t,
				"delete from ringfence_private.candidate where resource = $1 and token = $2",
				string(r), int64(token))
		},
		Sessions: func(t testing.TB, rs ...fence.Resource) int {
			return int(d.number(t, "select count(distinct lease) "+
				"from ringfence_private.candidate where resource = any($1)", rs))
		},
		Alone: func(t testing.TB) (c, operator elector.Coordinator) {
			other := fresh(t)
			url := other.url() + options
			return openWith(t, url, timeout, nil), openWith(t, url, timeout, nil)
		},
	}, of
}

// database is a database that no other test uses.
type database struct {
	pg   *servers.Postgres
	name string
}

func fresh(t testing.TB) database {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	return database{pg, serverstest.FreshDatabase(t, pg)}
}

func (d database) url() string { return d.pg.URL("postgres", d.name) }

// through is a URL that leads through a relay.
func (d database) through(r *servers.Relay) string {
	return "postgres://postgres@" + r.Addr() + "/" + d.name + "?sslmode=disable"
}

// sql runs a statement as the superuser.
func (d database) sql(t testing.TB, sql string, args ...any) {
	t.Helper()
	pgtest.Exec(t, d.url(), sql, args...)
}

// number runs a query that returns a number.
func (d database) number(t testing.TB, sql string, args ...any) int64 {
	t.Helper()
	return pgtest.Value[int64](t, d.url(), sql, args...)
}

// openWith opens a coordinator and closes it with the test.
func openWith(
	t testing.TB, url string, timeout time.Duration, change func(*pgx.ConnConfig),
) *Coordinator {
	t.Helper()
	a, err := parseURL(url)
	must.Succeed(t, err)
	if change != nil {
		change(a.cfg)
	}
	for {
		c, err := open(context.WithoutCancel(t.Context()), a, Options{SessionTimeout: timeout})
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if !errors.Is(err, ErrUnreachable) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// current is the coordinator's session, or nil.
func current(c *Coordinator) *session { return c.campaigns.Current() }

// faulty is a client whose traffic and replies a test controls.
type faulty struct {
	relay     *servers.Relay
	loseReply atomic.Bool
	sent      atomic.Pointer[chan struct{}] // closed when the next enrolment or change is sent
}

// config makes the next enrolment, or change of documents, happen and its reply get lost.
func (f *faulty) config(cfg *pgx.ConnConfig) {
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &losing{Conn: conn, f: f}, nil
	}
}

// losing breaks instead of passing on the reply to an enrolment.
type losing struct {
	net.Conn
	f    *faulty
	lost atomic.Bool
}

func (l *losing) Write(b []byte) (int, error) {
	if enrols(b) {
		if sent := l.f.sent.Swap(nil); sent != nil {
			defer close(*sent)
		}
	}
	if enrols(b) && l.f.loseReply.CompareAndSwap(true, false) {
		l.lost.Store(true)
	}
	return l.Conn.Write(b)
}

func (l *losing) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b) // it has happened when the server answers
	if l.lost.Load() {
		l.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// enrols returns whether these bytes enrol a candidate, or change documents.
func enrols(b []byte) bool {
	return bytes.Contains(b, []byte("ringfence.nominate(")) ||
		bytes.Contains(b, []byte("ringfence.change_documents("))
}
