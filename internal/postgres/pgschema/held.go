package pgschema

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// free is the statement that ends the transactions which have worked on resources for too long.
const free = "select ringfence.free($1::text[])"

// waits bounds how often a call waits for a lock. Each wait takes half a second
// (ringfence.begin_work).
const waits = 20

// Unheld makes a call for resources. When the call has waited for a lock, Unheld ends the
// transactions that have held these resources for more than five seconds, by a statement that exec
// runs, and makes the call again. An error with SQLSTATE RF006 names who cannot be ended.
func Unheld(
	ctx context.Context, resources []string, exec func(sql string, args ...any) error,
	call func() error,
) error {
	for n := 1; ; n++ {
		err := call()
		pg, answered := errors.AsType[*pgconn.PgError](err)
		if !answered || pg.Code != "55P03" || n == waits || ctx.Err() != nil { // lock_not_available
			return err
		}
		if err := exec(free, resources); err != nil {
			return err
		}
	}
}
