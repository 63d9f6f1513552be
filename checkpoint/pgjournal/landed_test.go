package pgjournal

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestOnlyAnErrorFromBeforeTheCommitSaysThatNothingHasLanded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		severity, code string
		unknown        bool
	}{
		{"ERROR", "23505", false},
		{"ERROR", "40001", false},
		{"ERROR", "57014", true}, // it can come behind the commit
		{"ERROR", refusal.SQLState(fence.ErrStale), false},
		{"ERROR", refusal.CheckpointConflict, false},
		{"FATAL", refusal.SQLState(fence.ErrStale), true}, // of a guard that ends the session
		{"FATAL", "08P01", true},                          // of PgBouncer
		{"FATAL", "58000", true},                          // of pgcat
		{"FATAL", "25P03", true},
		{"ERROR", "XX000", true},
	} {
		err := landed(t.Context(), &pgconn.PgError{Severity: c.severity, Code: c.code}, fence.Claim{})
		if unknown := errors.Is(err, checkpoint.ErrUnknown); unknown != c.unknown {
			t.Errorf("after %s %s: %v", c.severity, c.code, err)
		}
	}
}

func TestNothingHasLandedWithoutALogin(t *testing.T) {
	t.Parallel()
	_, err := pgconn.Connect(t.Context(), serverstest.SharedPostgres(t).URL("nobody", "postgres"))
	if err := landed(t.Context(), err, fence.Claim{}); err == nil ||
		errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("after a refused login: %v", err)
	}
}
