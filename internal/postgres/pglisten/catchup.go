// Package pglisten keeps an idle LISTEN from holding back the server's queue of notices.
//
// All databases of a server share that queue, and it is cleared up to the listener that has read
// least. A listener reads when something is sent in its own database. What is sent elsewhere wakes
// it only once it is four pages behind, so until then pg_notification_queue_usage() stays above
// zero.
package pglisten

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A notice wakes all listeners of its database, so one of several is enough. While the queue is
// empty, nothing is written.
const catchUp = `select pg_catalog.pg_notify('ringfence_read', '')
                  where pg_catalog.pg_notification_queue_usage() > 0`

// CatchUp has the session of conn read the queue, if anything is left there. Call it from time to
// time while nothing arrives. It returns an error only if the connection is lost: no listener
// depends on a queue that is empty.
func CatchUp(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, catchUp, pgx.QueryExecModeSimpleProtocol)
	if conn.IsClosed() {
		return err
	}
	return nil
}
