package postgres

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Dial opens a connection to the server for a client of the guard: TCP or a Unix socket, as in the
// store's URL. It sends nothing; the client's own login comes first.
func (s *Store) Dial(ctx context.Context) (net.Conn, error) {
	network, address := dialTarget(s.cfg)
	d := net.Dialer{KeepAlive: 30 * time.Second}
	return d.DialContext(ctx, network, address)
}

// dialTarget returns the network and address of the server in cfg.
func dialTarget(cfg *pgx.ConnConfig) (network, address string) {
	if strings.HasPrefix(cfg.Host, "/") {
		return "unix", cfg.Host + "/.s.PGSQL." + strconv.Itoa(int(cfg.Port))
	}
	return "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}
