package pgmarks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/postgres/pgschema"
)

// Direct has the database itself admit the sessions of these roles when they log in, and of no
// others (ringfence.direct; Postgres 17 and later, as a superuser). It returns when the sessions of
// the roles that are open, and were not admitted, have ended. A trial refuses and ends nobody.
// Without roles the database admits nobody any more, and lets everybody in.
//
// The trigger is in force from the commit on: after an error it may be, and older sessions may be
// left.
func (a *Authorizer) Direct(ctx context.Context, roles []string, trial bool) error {
	if roles == nil {
		roles = []string{}
	}
	err := pgx.BeginTxFunc(ctx, a.conn, writing, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select ringfence.direct($1::name[], $2)", roles, trial)
		return err
	})
	if err != nil || trial || len(roles) == 0 {
		return explain(err)
	}
	return a.endOthers(ctx, roles)
}

// endEvery is how often sessions are ended that nobody has admitted. One that is logging in is
// found only once it has.
const endEvery = 50 * time.Millisecond

func (a *Authorizer) endOthers(ctx context.Context, roles []string) error {
	var since time.Time
	if err := a.conn.QueryRow(ctx, "select clock_timestamp()").Scan(&since); err != nil {
		return explain(err)
	}
	again := time.NewTicker(endEvery)
	defer again.Stop()
	for {
		var left int
		err := a.conn.QueryRow(ctx, "select ringfence.end_others($1::name[], $2)", roles,
			since).Scan(&left)
		if err != nil || left == 0 {
			return explain(err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("the trigger is in force, and %d sessions from before are left: %w", left,
				context.Cause(ctx))
		}
	}
}

// DirectSessions is whose sessions a database admits itself.
type DirectSessions struct {
	Roles   []string
	Trial   bool // it refuses nobody, and fences nothing
	InForce bool // it refuses
}

// DirectSessions reads it.
func (a *Authorizer) DirectSessions(ctx context.Context) (d DirectSessions, err error) {
	return d, explain(d.scan(a.conn.QueryRow(ctx, directQuery)))
}

const directQuery = "select roles, trial, in_force from ringfence.direct_sessions()"

func (d *DirectSessions) scan(row pgx.Row) error {
	return row.Scan(&d.Roles, &d.Trial, &d.InForce)
}

// String says it for people.
func (d DirectSessions) String() string {
	switch roles := strings.Join(d.Roles, ", "); {
	case d.Trial:
		return "only logs which logins of " + roles + " it would refuse: a trial fences nothing"
	case d.InForce:
		return "admits the sessions of " + roles + " itself, and refuses all others of these roles"
	case roles != "":
		return "admits nobody itself, because the event trigger ringfence_login was changed: " +
			"run guard direct with its roles again"
	}
	return "admits no sessions itself: a guard has to"
}

// Note says whose sessions the database admits itself, if it admits any.
func (s *Store) Note(ctx context.Context) (string, error) {
	var d DirectSessions
	err := s.retry(ctx, func() error { return d.scan(s.pool.QueryRow(ctx, directQuery)) })
	if err != nil || len(d.Roles) == 0 {
		return "", err
	}
	return "the database " + d.String(), nil
}

// DirectScript returns the SQL that Direct runs, for psql.
func DirectScript(roles []string, trial bool) string {
	var quoted []string
	for _, r := range roles {
		quoted = append(quoted, pgschema.Literal(r))
	}
	list := "array[" + strings.Join(quoted, ", ") + "]::name[]"
	text := fmt.Sprintf("select ringfence.direct(%s, %t);\n", list, trial)
	if len(roles) > 0 && !trial {
		text += fmt.Sprintf("-- until it says 0:\nselect ringfence.end_others(%s, clock_timestamp());\n",
			list)
	}
	return text
}
