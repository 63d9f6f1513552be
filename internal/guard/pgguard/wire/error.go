package wire

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// SQLSTATEs of Postgres itself that a guard uses (manual, appendix A).
const (
	ResolutionUnknown    = "08007"
	ProtocolViolation    = "08P01"
	NotSupported         = "0A000"
	InvalidAuthorization = "28000"
	InvalidCatalogName   = "3D000"
	TooManyConnections   = "53300"
	AdminShutdown        = "57P01"
	CannotConnectNow     = "57P03"
	IdleSessionTimeout   = "57P05"
)

// Error is an error of the guard's own that has nothing to do with claims: what happened, why, and
// what to do.
type Error struct{ Code, Message, Detail, Hint string }

func (e *Error) Error() string { return e.Message }

// Violation is a violation of the protocol that no Postgres server would accept either.
func Violation(format string, args ...any) error {
	return &Error{Code: ProtocolViolation, Message: fmt.Sprintf(format, args...)}
}

// IsViolation reports whether err is one.
func IsViolation(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == ProtocolViolation
}

// Response puts err in the protocol's form.
func Response(severity string, err error) *pgproto3.ErrorResponse {
	m := &pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity}
	var r *fence.Refusal
	var setup *fence.SetupError
	var own *Error
	var full interface { // guard.FullError
		error
		AtMost() int
	}
	switch {
	case errors.As(err, &r):
		m.Code = refusal.SQLState(r.Reason)
		m.Message, m.Detail, m.Hint = r.Message, r.Detail, r.Hint
		f := refusal.FieldsOf(r)
		m.SchemaName, m.TableName = f.Schema, f.Table
		m.ColumnName, m.ConstraintName = f.Column, f.Constraint
		return m
	case errors.As(err, &setup):
		own = &Error{CannotConnectNow, "the guard cannot serve this database", setup.What, setup.Hint}
	case errors.As(err, &own):
	case errors.As(err, &full):
		own = &Error{Code: TooManyConnections, Message: full.Error(),
			Hint: "close unused sessions, or raise GUARD_MAX_CONNECTIONS"}
	default:
		own = &Error{CannotConnectNow, "the guard could not admit this session", err.Error(),
			"nothing was admitted and nothing was written; try again with the same token"}
	}
	m.Code, m.Message, m.Detail, m.Hint = own.Code, own.Message, own.Detail, own.Hint
	return m
}

// Fatal encodes err as the last message to a client.
func Fatal(err error) []byte { return Encode(Response("FATAL", err)) }

const (
	shuttingDown = "the guard is shutting down"
	connectAgain = "connect again, with the same token if this process still leads"
)

// Last words.
var (
	// Unavailable refuses a login because the guard shuts down. With this code libpq tries the next
	// host of its list.
	Unavailable = &Error{CannotConnectNow, shuttingDown, "nothing was written", connectAgain}
	// ShuttingDown is for a session that was at rest outside of a transaction.
	ShuttingDown = &Error{AdminShutdown, shuttingDown, "nothing was executed after the last answer",
		connectAgain}
	// RolledBack is for a session that was at rest in a transaction when the time for that was over.
	RolledBack = &Error{AdminShutdown, shuttingDown,
		"the open transaction did not end within GUARD_DRAIN_TIMEOUT and is rolled back", connectAgain}
	// Unanswered is for a session whose statement ran when the time for that was over, or may have run
	// after the guard stopped passing on answers.
	Unanswered = Unconfirmed(shuttingDown)
	// Evicted is for a client that the guard waited for while others waited for room.
	Evicted = &Error{TooManyConnections, "the place was given to another connection",
		"nothing was written; the guard was waiting for this client while others waited for room",
		"connect again"}
)

// Moved is for a session at a server that is no longer the primary, at rest outside of a
// transaction or not.
func Moved(atRest bool) *Error {
	const why = "another server is the primary now"
	if !atRest {
		return Unconfirmed(why)
	}
	return &Error{AdminShutdown, why,
		"no statement was under way; what the other server had not received by then is lost",
		connectAgain}
}

// Unconfirmed is for a session that may have run something after the last answer that its client
// got.
func Unconfirmed(why string) *Error {
	return &Error{ResolutionUnknown, why + ", and the outcome of the last statement is unknown",
		"its answer did not come in time, or came too late to be passed on; it may have been committed",
		"connect again, and look whether it was before you repeat it"}
}
