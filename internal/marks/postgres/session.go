package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Leg is what a client's own connection has to say of itself, when it is asked Question.
type Leg struct {
	marks.Session
	Superuser bool
}

// Question is the statement that a guard sends on a client's own connection between the login and the first statement of
// the client. Only that connection itself can prove where it leads: behind a TCP balancer, or an address that has moved,
// a backend of the same pid may live on another server than the one that keeps the marks.
const Question = "select ringfence.leg()"

// ParseLeg reads the answer to Question.
func ParseLeg(answer string) (Leg, error) {
	if answer == "standby" {
		return Leg{}, refusal.Setup("the client's connection leads to a standby, whose sessions could write once it is promoted", "point the guard at the primary")
	}
	var l Leg
	var micros int64
	n, err := fmt.Sscanf(answer, "%d %d %t %s", &l.ID, &micros, &l.Superuser, &l.Run)
	if err != nil || n != 4 {
		return Leg{}, fmt.Errorf("the database answered %.100q to %q: guard and schema are of different versions", answer, Question)
	}
	l.Birth = birth(time.UnixMicro(micros))
	return l, nil
}

// Judge refuses a leg that could not be ended later. pid is the one that the server named at the login.
func (s *Store) Judge(ctx context.Context, l Leg, pid uint32, role string) error {
	if l.ID != int64(pid) {
		return pooled(fmt.Sprintf("there is a pooler between guard and Postgres: the login named backend %d, the session is one of backend %d", pid, l.ID))
	}
	if !l.Superuser {
		return nil
	}
	var own bool
	err := s.row(ctx, func(r pgx.Row) error { return r.Scan(&own) }, `select rolsuper from pg_roles where rolname = current_user`)
	if err == nil && !own {
		return refusal.Superuser(role)
	}
	return err
}

// Walsender finds the backend of a connection for physical replication, which takes no statement and cannot write. It is
// known by the server's list of backends.
func (s *Store) Walsender(ctx context.Context, pid uint32, role string) (marks.Session, error) {
	var start time.Time
	var user, run string
	err := s.row(ctx, func(r pgx.Row) error { return r.Scan(&start, &user, &run) },
		`select a.backend_start, a.usename, ringfence.run() from pg_stat_activity a where a.pid = $1 and a.backend_type = 'walsender'`, int64(pid))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && user != role {
		return marks.Session{}, pooled(fmt.Sprintf("the server has no replication connection of role %s with the pid %d that it gave the client", role, pid))
	}
	return marks.Session{ID: int64(pid), Birth: birth(start), Run: run}, err
}

// Alive tells whether a session is still there, by the server's list of backends.
func (s *Store) Alive(ctx context.Context, sess marks.Session) (alive bool, err error) {
	start, err := parseBirth(sess.Birth)
	if err != nil {
		return false, err
	}
	err = s.row(ctx, func(r pgx.Row) error { return r.Scan(&alive) },
		`select ringfence.run() = $3 and exists (select from pg_stat_get_activity($1) a where a.pid = $1 and a.backend_start = $2)`, sess.ID, start, sess.Run)
	return alive, err
}

// errElsewhere is the error of a session that is none of the store's own server and database.
var errElsewhere = refusal.Setup("the client's connection leads to another server or database than the guard's own connections: its marks are not kept there",
	"guard each database by a guard of its own, whose GUARD_POSTGRES_UPSTREAM names it; let that URL lead to one server, not to a balancer; after a failover try again")

// moved tells whether a session's run is one of another server than that of a control connection. One of another database
// of the same run is no reason to dial anew.
func (s *Store) moved(ctx context.Context, run string) bool {
	var own string
	err := s.row(ctx, func(r pgx.Row) error { return r.Scan(&own) }, `select ringfence.run()`)
	return err == nil && withoutDatabase(own) != withoutDatabase(run)
}

// withoutDatabase is a run (system identifier, timeline, database, start) but for the database.
func withoutDatabase(run string) string {
	all := strings.Split(run, "/")
	if len(all) != 4 {
		return run
	}
	return strings.Join(slices.Delete(all, 2, 3), "/")
}

// pooled is the error of a connection that does not lead straight to one server.
func pooled(what string) error {
	return refusal.Setup(what, "put the guard directly in front of one Postgres server: a pooler such as PgBouncer goes between application and guard's clients, never between guard and Postgres")
}

const birthForm = "2006-01-02T15:04:05.000000Z" // Postgres counts microseconds

func birth(t time.Time) string { return t.UTC().Format(birthForm) }

func parseBirth(s string) (time.Time, error) {
	t, err := time.Parse(birthForm, s)
	if err != nil {
		return t, fmt.Errorf("not a Postgres session: %w", err)
	}
	return t, nil
}
