package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/refusal"
)

// identify finds out which session of which server the client's own upstream connection leads to.
// Nothing of the client but its login has been sent there yet.
func (p *Protocol) identify(
	ctx context.Context, l *login, s *startup, in *database,
) (marks.Session, error) {
	defer marks.StepIdentify.Begin(ctx)()
	unhook := guard.Limit(ctx, l.server, p.o.LoginTimeout)
	defer func() {
		unhook()
		_ = l.server.SetDeadline(time.Time{})
	}()
	if physical(s.get("replication")) {
		return in.Store.Walsender(ctx, l.pid, s.get("user"))
	}
	identity, ok, err := p.find(ctx, l, s, in)
	if err == nil && !ok {
		identity, err = p.ask(l, s, in)
	}
	if err != nil {
		return marks.Session{}, err
	}
	return identity.Session, in.Store.CheckIdentity(ctx, identity, l.pid, s.get("user"))
}

// find tags the connection and looks for the tag in the server's list of backends. It returns false
// if the tag is not there. A walsender takes statements only of its own grammar before Postgres 15,
// and is not tagged.
func (p *Protocol) find(
	ctx context.Context, l *login, s *startup, in *database,
) (pgstore.Identity, bool, error) {
	if s.get("replication") != "" {
		return pgstore.Identity{}, false, nil
	}
	tag := pgstore.NewTag()
	var answer *answeredError
	if _, err := l.query(tag); err != nil && !errors.As(err, &answer) {
		return pgstore.Identity{}, false, identifying(err)
	}
	return in.Store.Identify(ctx, l.pid, tag)
}

// ask queries the connection itself.
func (p *Protocol) ask(l *login, s *startup, in *database) (pgstore.Identity, error) {
	answer, err := l.query(pgstore.IdentityQuery)
	if err != nil {
		return pgstore.Identity{}, unidentified(err, s.database(), in.Store.Database())
	}
	return pgstore.ParseIdentity(answer)
}

// database returns the database that the client asks for: by default the one with the user's name.
func (s *startup) database() string {
	if name := s.get("database"); name != "" {
		return name
	}
	return s.get("user")
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
	if err := send(l.server, &pgproto3.Query{String: statement}); err != nil {
		return "", err
	}
	var answered error
	for {
		kind, message, err := readMessage(l.fromServer)
		if err != nil {
			return "", serverError(err)
		}
		switch kind {
		case 'D':
			if value, err = oneValue(message[5:]); err != nil {
				return "", err
			}
		case 'S':
			if _, err := l.out.Write(message); err != nil {
				return "", err
			}
		case 'E':
			answered = decodeError(message[5:])
		case 'Z':
			l.ready = message
			return value, answered
		}
	}
}

// oneValue reads a DataRow of one column.
func oneValue(body []byte) (string, error) {
	const head = 6 // the number of columns, and the length of the first
	if len(body) < head || binary.BigEndian.Uint16(body) != 1 ||
		int(int32(binary.BigEndian.Uint32(body[2:]))) != len(body)-head {
		return "", errors.New("the server did not answer with a single value")
	}
	return string(body[head:]), nil
}

func decodeError(body []byte) error {
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return err
	}
	return &answeredError{e.Code, e.Message}
}
