package pgcause_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/postgres/pgcause"
)

func TestOnlyAnErrorFromBeforeTheCommitUndoesATransaction(t *testing.T) {
	for _, c := range []struct {
		severity, code string
		undone         bool
	}{
		{"ERROR", "23505", true},
		{"ERROR", "40001", true},
		{"ERROR", "RFE04", true},
		{"FATAL", "23505", false},
		{"FATAL", "08P01", false}, // PgBouncer has lost its server
		{"ERROR", "08006", false},
		{"ERROR", "57P01", false},
		{"ERROR", "58000", false}, // pgcat has lost its server
		{"ERROR", "XX000", false},
		{"PANIC", "53100", false},
		{"ERROR", "", false},
		{"FEHLER", "23505", false},
	} {
		pg := &pgconn.PgError{Severity: c.severity, Code: c.code}
		if undone := pgcause.Undone(pg); undone != c.undone {
			t.Errorf("after %s %s: %v", c.severity, c.code, undone)
		}
	}
	if !pgcause.Undone(&pgconn.PgError{
		Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "23505",
	}) {
		t.Error("an error in another language counts as fatal")
	}
}
