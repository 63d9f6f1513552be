package postgres

import (
	"errors"
	"io"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/refusal"
)

// SQLSTATEs of Postgres itself that the guard uses (manual, appendix A).
const (
	resolutionUnknown     = "08007"
	adminShutdown         = "57P01"
	cannotConnectNow      = "57P03"
	idleSessionTimeout    = "57P05"
	insufficientPrivilege = "42501"
	protocolViolation     = "08P01"
	tooManyConnections    = "53300"
	invalidAuthorization  = "28000"
	invalidCatalogName    = "3D000"
)

// loginError is a refusal of the guard's own that has nothing to do with claims.
type loginError struct{ code, what, why, hint string }

func (e *loginError) Error() string { return e.what }

// errorResponse puts err in the protocol's form: what happened, why, and what to do.
func errorResponse(err error) *pgproto3.ErrorResponse {
	e := &pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL"}
	var r *fence.Refusal
	var setup *fence.SetupError
	var bad *protocolError
	var login *loginError
	var full guard.FullError
	switch {
	case errors.As(err, &r):
		e.Code = refusal.SQLState(r.Reason)
		e.Message, e.Detail, e.Hint = r.Message, r.Detail, r.Hint
		f := refusal.FieldsOf(r)
		e.SchemaName, e.TableName = f.Schema, f.Table
		e.ColumnName, e.ConstraintName = f.Column, f.Constraint
	case errors.As(err, &setup):
		e.Code, e.Message = cannotConnectNow, "the guard cannot serve this database"
		e.Detail, e.Hint = setup.What, setup.Hint
	case errors.As(err, &bad):
		e.Code, e.Message = protocolViolation, bad.what
	case errors.As(err, &login):
		return fatal(login.code, login.what, login.why, login.hint)
	case errors.As(err, &full):
		e.Code, e.Message = tooManyConnections, full.Error()
		e.Hint = "close unused sessions, or raise GUARD_MAX_CONNECTIONS"
	default:
		e.Code, e.Message = cannotConnectNow, "the guard could not admit this session"
		e.Detail = err.Error()
		e.Hint = "nothing was admitted and nothing was written; try again with the same token"
	}
	return e
}

func fatal(code, message, detail, hint string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{
		Severity: "FATAL", SeverityUnlocalized: "FATAL",
		Code: code, Message: message, Detail: detail, Hint: hint,
	}
}

// connectAgain is the hint of a guard that shuts down.
const connectAgain = "connect again, with the same token if this process still leads"

// unavailable refuses a login because the guard is shutting down. With this code libpq tries the next
// host of its list.
func unavailable() *pgproto3.ErrorResponse {
	return fatal(cannotConnectNow, "the guard is shutting down", "nothing was written", connectAgain)
}

// shuttingDown is the last word to a session that was at rest outside of a transaction.
func shuttingDown() *pgproto3.ErrorResponse {
	return fatal(adminShutdown, "the guard is shutting down",
		"nothing was executed after the last answer", connectAgain)
}

// rolledBack is the last word to a session that was at rest in a transaction when the time for that
// was over.
func rolledBack() *pgproto3.ErrorResponse {
	return fatal(adminShutdown, "the guard is shutting down",
		"the open transaction did not end within GUARD_DRAIN_TIMEOUT and is rolled back", connectAgain)
}

// unanswered is the last word to a session whose statement ran when the time for that was over.
func unanswered() *pgproto3.ErrorResponse {
	return unconfirmed("the guard is shutting down")
}

// unconfirmed is the last word to a session of which the server did not confirm that it was at rest.
func unconfirmed(why string) *pgproto3.ErrorResponse {
	return fatal(resolutionUnknown, why+", and the last statement had no answer",
		"it did not end in time, and may have been committed",
		"connect again, and look whether it was before you repeat it")
}

func evicted() *pgproto3.ErrorResponse {
	return fatal(tooManyConnections, "the place was given to another connection",
		"nothing was written; the guard was waiting for this client while others waited for room",
		"connect again")
}

// encoded encodes a message of the guard's own, which cannot fail.
func encoded(m pgproto3.Message) []byte {
	b, _ := m.Encode(nil)
	return b
}

func send(w io.Writer, m pgproto3.Message) error {
	b, err := m.Encode(nil)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
