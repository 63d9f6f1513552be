package pgmarks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Identity is a client's own connection as IdentityQuery describes it.
type Identity struct {
	marks.SessionID
	Superuser bool // the role that has logged in is one
}

// NewTag returns a statement that does nothing, with a name in it that nobody else can know. It
// runs in every state of a session, also in a failed transaction. A guard sends it on a client's
// own connection, between the login and the client's first statement, and Identify then looks for
// it; and again before it lets a session go (marks.Proof). Only that connection can prove where it
// leads: behind a TCP balancer, or an address that has moved, a backend with the same pid may live
// on another server than the one with the marks.
func NewTag() string { return "/* ringfence " + rand.Text() + " */" }

// Identify finds the backend with this pid whose last statement was the tag, in the list of
// backends of the server that has the marks. So the connection that the tag was sent on leads to
// that backend. It returns false if there is none in the store's database: the connection leads
// elsewhere, or the server keeps no statements (track_activities). Then ask with IdentityQuery.
func (s *Store) Identify(
	ctx context.Context, pid uint32, tag string,
) (i Identity, ok bool, err error) {
	var start time.Time
	err = s.row(ctx, func(r pgx.Row) error { return r.Scan(&start, &i.Superuser, &i.Run) },
		identifySQL, int64(pid), tag)
	if errors.Is(err, pgx.ErrNoRows) {
		return i, false, nil
	}
	i.ID, i.Birth = int64(pid), birth(start)
	return i, err == nil, err
}

// IdentityQuery asks a connection which session of which server it is. It takes a new backend a few
// milliseconds, most of it to load PL/pgSQL; Identify takes a fraction of one.
const IdentityQuery = "select ringfence.backend_identity()"

// ParseIdentity parses the answer to IdentityQuery.
func ParseIdentity(answer string) (Identity, error) {
	if answer == "standby" {
		return Identity{}, refusal.Replica("the client's connection leads to a standby, " +
			"whose sessions could write once it is promoted")
	}
	var i Identity
	var micros int64
	n, err := fmt.Sscanf(answer, "%d %d %t %s", &i.ID, &micros, &i.Superuser, &i.Run)
	if err != nil || n != 4 {
		return Identity{}, fmt.Errorf("the database answered %.100q to %q: "+
			"guard and schema are of different versions", answer, IdentityQuery)
	}
	i.Birth = birth(time.UnixMicro(micros))
	return i, nil
}

// CheckIdentity refuses a session that the store could not end later. pid is the one that the
// server gave the client at the login.
func (s *Store) CheckIdentity(ctx context.Context, i Identity, pid uint32, role string) error {
	if i.ID != int64(pid) {
		return poolerError(fmt.Sprintf("there is a pooler between guard and Postgres: "+
			"the login named backend %d, the session is one of backend %d", pid, i.ID))
	}
	if !i.Superuser {
		return nil
	}
	var own bool
	err := s.row(ctx, func(r pgx.Row) error { return r.Scan(&own) },
		`select rolsuper from pg_roles where rolname = current_user`)
	if err == nil && !own {
		return refusal.Superuser(role)
	}
	return err
}

// Walsender finds the session of a connection for physical replication in the server's list of
// backends. Such a connection takes no statement, and cannot write.
func (s *Store) Walsender(ctx context.Context, pid uint32, role string) (i Identity, err error) {
	var start time.Time
	var user string
	err = s.row(ctx, func(r pgx.Row) error { return r.Scan(&start, &user, &i.Superuser, &i.Run) },
		`select a.backend_start, a.usename, o.rolsuper, ringfence.run()
		   from pg_stat_activity a join pg_roles o on o.oid = a.usesysid
		  where a.pid = $1 and a.backend_type = 'walsender'`, int64(pid))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && user != role {
		return i, poolerError(fmt.Sprintf("the server has no replication connection "+
			"of role %s with the pid %d that it gave the client", role, pid))
	}
	i.ID, i.Birth = int64(pid), birth(start)
	return i, err
}

// Alive reports whether a session is still in the server's list of backends.
func (s *Store) Alive(ctx context.Context, sess marks.SessionID) (alive bool, err error) {
	start, err := parseBirth(sess.Birth)
	if err != nil {
		return false, err
	}
	err = s.row(ctx, func(r pgx.Row) error { return r.Scan(&alive) },
		`select ringfence.run() = $3 and exists (
		        select from pg_stat_get_activity($1) a where a.pid = $1 and a.backend_start = $2)`,
		sess.ID, start, sess.Run)
	return alive, err
}

// errOtherServer refuses a session on another server, or in another database, than the store's.
var errOtherServer = refusal.Setup(
	"the client's connection leads to another server or database than the guard's own "+
		"connections: its marks are not kept there",
	"let GUARD_POSTGRES_UPSTREAM lead to one server, not to a balancer; after a failover try again")

// onOtherServer reports whether a session's run is of another server than the control connections'.
// Another database of the same run does not count, because a new control connection would lead to
// the same database as before.
func (s *Store) onOtherServer(ctx context.Context, run string) bool {
	var own string
	err := s.row(ctx, func(r pgx.Row) error { return r.Scan(&own) }, runSQL)
	return err == nil && startOf(own) != startOf(run)
}

// startOf returns the start of the server from a run.
func startOf(run string) string { return run[strings.LastIndexByte(run, '/')+1:] }

// poolerError refuses a connection that does not lead straight to one server.
func poolerError(what string) error {
	return refusal.Setup(what, "put the guard directly in front of one Postgres server: "+
		"a pooler such as PgBouncer goes between application and guard's clients, "+
		"never between guard and Postgres")
}

const birthLayout = "2006-01-02T15:04:05.000000Z" // Postgres counts microseconds

func birth(t time.Time) string { return t.UTC().Format(birthLayout) }

func parseBirth(s string) (time.Time, error) {
	t, err := time.Parse(birthLayout, s)
	if err != nil {
		return t, fmt.Errorf("not a Postgres session: %w", err)
	}
	return t, nil
}
