package pgguard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// identify finds out which session of which server the client's own upstream connection leads to.
// Nothing of the client but its login has been sent there yet.
func (l *login) identify(ctx context.Context) (marks.SessionID, error) {
	defer marks.StepIdentify.Begin(ctx)()
	unhook := guard.Limit(ctx, l.server, l.p.o.LoginTimeout)
	defer func() {
		unhook()
		_ = l.server.SetDeadline(time.Time{})
	}()
	store, user := l.at.Store, l.startup.Get("user")
	var identity pgmarks.Identity
	err := l.whilePrimary(func() (err error) {
		identity, err = l.look(ctx, user)
		return err
	})
	if err != nil {
		return marks.SessionID{}, err
	}
	return identity.SessionID, store.CheckIdentity(ctx, identity, l.pid, user)
}

// look finds the session in the server's list of backends, or asks the connection itself.
func (l *login) look(ctx context.Context, user string) (pgmarks.Identity, error) {
	if physical(l.startup.Get("replication")) {
		return l.at.Store.Walsender(ctx, l.pid, user)
	}
	identity, ok, err := l.find(ctx)
	if err == nil && !ok {
		return l.ask(ctx)
	}
	return identity, err
}

// find tags the connection and looks for the tag in the server's list of backends. It returns false
// if the tag is not there. A walsender takes statements only of its own grammar before Postgres 15,
// and is not tagged.
func (l *login) find(ctx context.Context) (identity pgmarks.Identity, ok bool, err error) {
	if l.startup.Get("replication") != "" {
		return identity, false, nil
	}
	tag := pgmarks.NewTag()
	var answer *answeredError
	if _, err := l.query(tag); err != nil && !errors.As(err, &answer) {
		return identity, false, identifying(err)
	}
	return l.at.Store.Identify(ctx, l.pid, tag)
}

// ask queries the connection itself.
func (l *login) ask(ctx context.Context) (pgmarks.Identity, error) {
	answer, err := l.query(pgmarks.IdentityQuery)
	if err != nil {
		return pgmarks.Identity{}, unidentified(err, l.startup.database(), l.at.Store.Database())
	}
	return pgmarks.ParseIdentity(answer)
}

// database returns the database that the client asks for: by default the one with the user's name.
func (s *startup) database() string {
	if name := s.Get("database"); name != "" {
		return name
	}
	return s.Get("user")
}

// physical reports whether a value of the startup parameter "replication" requests physical
// replication. Such a connection takes no SQL and cannot write.
func physical(replication string) bool {
	value := strings.ToLower(replication)
	return value == "1" || value == "on" ||
		value != "" && (strings.HasPrefix("true", value) || strings.HasPrefix("yes", value))
}

// unidentified explains why the identity query failed in a database. own is the guard's database.
func unidentified(err error, database, own string) error {
	var answer *answeredError
	switch {
	case !errors.As(err, &answer):
	case answer.noSchema() && database != own:
		return refusal.Setup(
			fmt.Sprintf("this guard is for database %q, the client asked for %q, "+
				"which has no marks", own, database),
			fmt.Sprintf("give the client database %q, or put a guard of its own in front of %q",
				own, database))
	case answer.noSchema():
		return refusal.NotInstalled(
			fmt.Sprintf("database %q has no schema ringfence that fits: %s",
				database, answer.message),
			err)
	case answer.code == "42501": // insufficient_privilege
		return refusal.Setup(
			fmt.Sprintf("the role may not use the schema ringfence of database %q: %s",
				database, answer.message),
			"an operator runs guard install again: it lets every role identify its own session")
	}
	return identifying(err)
}

func identifying(err error) error {
	return fmt.Errorf("cannot identify the session of the client's connection: %w", err)
}

// answeredError is the server's error response to a statement of the guard's own.
type answeredError struct{ code, message string }

func (e *answeredError) Error() string { return e.message + " (SQLSTATE " + e.code + ")" }

// noSchema reports whether the schema, the function or a table is missing.
func (e *answeredError) noSchema() bool {
	return e.code == "3F000" || e.code == "42883" || e.code == "42P01"
}

// query runs a statement of the guard's own on the client's connection and returns the single value
// of its single row. It drops notices, and passes reports of changed settings on to the client.
func (l *login) query(statement string) (value string, err error) {
	if err := wire.Send(l.server, &pgproto3.Query{String: statement}); err != nil {
		return "", err
	}
	var answered error
	for {
		kind, message, err := wire.Read(l.fromServer)
		if err != nil {
			return "", serverError(err)
		}
		switch kind {
		case 'D':
			var row pgproto3.DataRow
			if row.Decode(message[5:]) != nil || len(row.Values) != 1 || row.Values[0] == nil {
				return "", errors.New("the server did not answer with a single value")
			}
			value = string(row.Values[0])
		case 'S':
			if _, err := l.out.Write(message); err != nil {
				return "", err
			}
		case 'E':
			var e pgproto3.ErrorResponse
			if answered = e.Decode(message[5:]); answered == nil {
				answered = &answeredError{e.Code, e.Message}
			}
		case 'Z':
			l.ready = message
			return value, answered
		}
	}
}
