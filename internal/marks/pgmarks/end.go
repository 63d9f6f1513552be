package pgmarks

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks"
)

// End tells the backend of a session to end, if it still lives, and does not wait for it. What it
// runs is rolled back, unless it has committed by then. An error means that it may go on.
func (s *Store) End(ctx context.Context, session marks.SessionID) error {
	start, err := parseBirth(session.Birth)
	if err != nil {
		return err
	}
	var told int
	return s.row(ctx, func(r pgx.Row) error { return r.Scan(&told) },
		`select count(pg_terminate_backend(a.pid)) from pg_stat_get_activity($1) a where a.pid = $1 and a.backend_start = $2`,
		session.ID, start)
}
