package pgmarks

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// few starts a server with room for few locks, and returns a realm on it.
func few(t *testing.T, settings map[string]string) *realm {
	t.Helper()
	settings["max_locks_per_transaction"] = "10"
	d := database{serverstest.Postgres(t, servers.PostgresOptions{Settings: settings}), "postgres"}
	d.roles(t)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	return &realm{database: d, s: d.open(t, Options{})}
}

// session opens a session of an application that is registered under a claim, as a guard does it.
func (r *realm) session(t *testing.T, c fence.Claim) *pgx.Conn {
	t.Helper()
	conn := r.connect(t, "app")
	tag := NewTag()
	_, err := conn.Exec(t.Context(), tag, pgx.QueryExecModeSimpleProtocol)
	must.Succeed(t, err)
	i, ok, err := r.s.Identify(t.Context(), conn.PgConn().PID(), tag)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	reg, err := r.s.Register(t.Context(), i.SessionID, []fence.Claim{c})
	if err != nil || reg.Next != marks.Admitted {
		t.Fatal(reg, err)
	}
	return conn
}

// useUpLocks has a session hold every lock that the server has room for, with one statement.
func useUpLocks(t *testing.T, c *pgx.Conn) {
	t.Helper()
	_, err := c.Exec(t.Context(), "select pg_advisory_lock(k) from generate_series(1, 1000000) k")
	if sqlstate(err) != NoMemory {
		t.Fatalf("the locks are not used up: %v", err)
	}
}

// agreeing confirms every claim, as a coordinator does whose leader has it.
type agreeing struct{ marks.Unverified }

func (agreeing) Verifies() bool { return true }

func (agreeing) Confirm(_ context.Context, c fence.Claim, _ marks.Mark) (fence.Claim, error) {
	return c, nil
}

func TestALeaderThatHoldsEveryLockIsTakenOverFrom(t *testing.T) {
	t.Parallel()
	r := few(t, map[string]string{"max_connections": "20"})
	old := r.lead(t, r.next())
	hog := r.session(t, old)
	useUpLocks(t, hog)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	a := marks.Admission{Store: r.s, Authority: agreeing{}}
	must.Succeed(t, a.Raise(ctx, r.next()))
	if _, err := hog.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the older session is still alive")
	}
	r.session(t, claimed(r.token))
}

// A claim that does not lead ends no session, even on a full server.
func TestNobodyIsEndedForAClaimThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	r := few(t, map[string]string{"max_connections": "20"})
	old := r.lead(t, r.next())
	hog := r.session(t, old)
	useUpLocks(t, hog)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := r.s.Raise(ctx, marks.SessionID{}, r.next(),
		func(context.Context, marks.Mark) (fence.Claim, error) {
			return fence.Claim{}, fence.ErrNotLeader
		})
	if err == nil {
		t.Error("raised")
	}
	must.Report(t, r.s.EndOlder(ctx, fence.Claim{
		Resource: old.Resource, Token: old.Token, Issuer: old.Issuer,
	}))
	other := old
	other.Issuer, other.Token = "zk:b", 99
	must.Report(t, r.s.EndOlder(ctx, other))
	if _, err := hog.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("a session of the present leader was ended: %v", err)
	}
}

// A guard whose statements would wait or fail is not ready, although it can read the marks.
func TestAStoreThatCouldNotRaiseIsNotReady(t *testing.T) {
	t.Parallel()
	r := few(t, map[string]string{"max_connections": "20"})
	hog := r.session(t, r.lead(t, r.next()))
	must.Succeed(t, r.s.Probe(t.Context()))
	operator := r.connect(t, "postgres")
	for _, table := range []string{"mark", "leaving"} {
		execute(t, operator, "begin")
		execute(t, operator, "lock table ringfence_private."+table+" in exclusive mode")
		if err := r.s.Probe(t.Context()); err == nil {
			t.Errorf("ready while %s is locked", table)
		}
		execute(t, operator, "rollback")
	}
	must.Report(t, r.s.Probe(t.Context()))
	useUpLocks(t, hog)
	if err := r.s.Probe(t.Context()); sqlstate(err) != NoMemory {
		t.Errorf("without locks: %v", err)
	}
	execute(t, hog, "select pg_advisory_unlock_all()")
	must.Succeed(t, r.s.Probe(t.Context()))
}

// A backend that has never seen a role needs a lock to end the role's sessions. The sweep looks it
// up before.
func TestAStoreThatHasWarmedUpEndsSessionsOfRolesThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	r := few(t, map[string]string{"max_connections": "20"})
	other := r.open(t, Options{})
	hog := r.session(t, r.lead(t, r.next()))
	other.warm(t.Context())
	useUpLocks(t, hog)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	must.Succeed(t, other.EndOlder(ctx, r.next()))
	if _, err := hog.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the older session is still alive")
	}
}

// An operator's default for idle sessions does not close the connections that are kept.
func TestNoTimeoutOfTheRoleEndsControlConnections(t *testing.T) {
	t.Parallel()
	r := few(t, map[string]string{})
	for _, name := range []string{"idle_session_timeout", "transaction_timeout", "lock_timeout"} {
		if r.list(t, "select count(*)::text from pg_settings where name = '"+name+"'")[0] == "0" {
			continue // the server is older
		}
		r.sql(t, "alter role "+guardRole+" set "+name+" = '1h'")
		var now string
		s := r.open(t, Options{})
		if err := s.pool.QueryRow(t.Context(), "select current_setting($1)",
			name).Scan(&now); err != nil || now != "0" {
			t.Errorf("%s is %s (%v)", name, now, err)
		}
	}
}

// A guard on a full server would find no room for another control connection.
func TestAControlConnectionOutlivesTheContextsOfItsStatements(t *testing.T) {
	t.Parallel()
	r := few(t, map[string]string{"max_connections": "20"})
	s := r.open(t, Options{Connections: 1})
	pid := func() (pid int) {
		t.Helper()
		must.Succeed(t, s.pool.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid))
		return pid
	}
	first := pid()
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		_, _ = s.Room(ctx, "postgres", "app")
		_ = s.EndOlder(ctx, r.next())
		cancel()
	}
	if last := pid(); last != first {
		t.Errorf("connection %d was closed, and %d opened", first, last)
	}
}
