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

// identify asks the client's own connection which session of which server it is. Nothing of the client has been sent on
// it but the login.
func (p *Protocol) identify(ctx context.Context, l *login, s *startup) (marks.Session, error) {
	defer marks.StepIdentify.Begin(ctx)()
	unhook := guard.Limit(ctx, l.server, p.o.LoginTimeout)
	defer func() {
		unhook()
		_ = l.server.SetDeadline(time.Time{})
	}()
	if physical(s.get("replication")) {
		return p.o.Store.Walsender(ctx, l.pid, s.get("user"))
	}
	answer, err := l.ask(pgstore.Question)
	if err != nil {
		return marks.Session{}, unidentified(err, s.database(), p.o.Store.Database())
	}
	leg, err := pgstore.ParseLeg(answer)
	if err != nil {
		return marks.Session{}, err
	}
	return leg.Session, p.o.Store.Judge(ctx, leg, l.pid, s.get("user"))
}

// database is where the session is to be: the user's name when the client names none.
func (s *startup) database() string {
	if name := s.get("database"); name != "" {
		return name
	}
	return s.get("user")
}

// physical tells whether a value of the startup parameter "replication" asks for physical replication, whose connections
// take no SQL and cannot write.
func physical(replication string) bool {
	value := strings.ToLower(replication)
	return value == "1" || value == "on" ||
		value != "" && (strings.HasPrefix("true", value) || strings.HasPrefix("yes", value))
}

// unidentified explains why a session in a database could not be asked; own is the guard's database.
func unidentified(err error, database, own string) error {
	var said *answeredError
	if errors.As(err, &said) {
		switch said.code {
		case "3F000", "42883", "42P01": // no schema, no function, no table
			if database != own {
				return refusal.Setup(fmt.Sprintf("this guard is for database %q, the client asked for %q, which has no marks", own, database),
					fmt.Sprintf("give the client database %q, or put a guard of its own in front of %q", own, database))
			}
			return refusal.NotInstalled(fmt.Sprintf("database %q has no schema ringfence that fits: %s", database, said.message), err)
		case "42501":
			return refusal.Setup(fmt.Sprintf("the role may not use the schema ringfence of database %q: %s", database, said.message), "an operator runs guard install again: it lets every role ask for its own session")
		}
	}
	return fmt.Errorf("the client's connection could not be asked which session it is: %w", err)
}

// answeredError is an error that the server answered to a statement of the guard's own.
type answeredError struct{ code, message string }

func (e *answeredError) Error() string { return e.message + " (SQLSTATE " + e.code + ")" }

// ask runs a statement of the guard's own on the client's connection and returns the one value of its one row. Notices
// about it are dropped; a changed setting that the server reports goes to the client.
func (l *login) ask(statement string) (value string, err error) {
	if err := send(l.server, &pgproto3.Query{String: statement}); err != nil {
		return "", err
	}
	var failed error
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
			failed = decodeError(message[5:])
		case 'Z':
			l.ready = message
			return value, failed
		}
	}
}

// oneValue reads a DataRow of one column.
func oneValue(body []byte) (string, error) {
	if len(body) < 6 || binary.BigEndian.Uint16(body) != 1 || int(int32(binary.BigEndian.Uint32(body[2:]))) != len(body)-6 {
		return "", errors.New("the server did not answer one value")
	}
	return string(body[6:]), nil
}

func decodeError(body []byte) error {
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil {
		return err
	}
	return &answeredError{e.Code, e.Message}
}
