package pgcause

import (
	"cmp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Undone reports whether an answer proves that the transaction it belongs to has not committed,
// even if a COMMIT was sent. After a FATAL or a PANIC nobody knows. A pooler sends a FATAL of its
// own, mostly 08P01, when it loses the server in the middle of a query; other poolers use the
// classes 58 and XX.
func Undone(pg *pgconn.PgError) bool {
	severity := cmp.Or(pg.SeverityUnlocalized, pg.Severity)
	return severity == "ERROR" && pg.Code != "" && !OfClass(pg, "08", "57P", "58", "XX")
}

// UndoneAlone is Undone for a statement that is a transaction of its own, and so sends no answer to
// a COMMIT: a cancellation, of class 57, can come behind its commit, while its duration is logged.
func UndoneAlone(pg *pgconn.PgError) bool { return Undone(pg) && !OfClass(pg, "57") }

// OfClass reports whether the SQLSTATE begins with one of these. It may be empty: not every program
// that speaks the protocol sends one.
func OfClass(pg *pgconn.PgError, classes ...string) bool {
	return slices.ContainsFunc(classes, func(class string) bool {
		return strings.HasPrefix(pg.Code, class)
	})
}
