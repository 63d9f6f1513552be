package pgmarks

import (
	"context"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// origin is the database to which a store's last connection was made.
type origin struct {
	mu       sync.Mutex
	system   string // its server's system identifier
	database string // its oid
}

// check looks where a new connection leads, and calls replaced if it is another database of the
// same server than before. Another server is none: it may be a standby that was promoted, or a
// restored one, to which what is remembered still applies.
func (o *origin) check(ctx context.Context, c *pgx.Conn, replaced func()) error {
	var server string
	if err := c.QueryRow(ctx, `select ringfence.server()`).Scan(&server); err != nil {
		return explain(err)
	}
	parts := strings.Split(server, "/")
	if len(parts) != 3 {
		return nil // Register compares the whole run
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.system == parts[0] && o.database != parts[2] && replaced != nil {
		replaced()
	}
	o.system, o.database = parts[0], parts[2]
	return nil
}
