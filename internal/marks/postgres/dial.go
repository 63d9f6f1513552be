package postgres

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
)

// Dial opens a connection to the server for a client of the guard: TCP or a Unix socket, with TLS or
// without, as in the store's URL. The connection is a *tls.Conn if it is encrypted. Dial sends no
// startup packet; the client's own login comes first.
func (s *Store) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := s.dial(ctx, s.cfg.TLSConfig)
	for _, next := range s.cfg.Fallbacks { // sslmode=prefer and allow: the same server, otherwise encrypted
		if err == nil || ctx.Err() != nil {
			break
		}
		conn, err = s.dial(ctx, next.TLSConfig)
	}
	return conn, err
}

// dial opens a connection, encrypted if there is a configuration.
func (s *Store) dial(ctx context.Context, config *tls.Config) (net.Conn, error) {
	network, address := dialTarget(s.cfg)
	plain, err := s.cfg.DialFunc(ctx, network, address)
	if err != nil || config == nil {
		return plain, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = plain.SetDeadline(time.Unix(1, 0)) })
	encrypted, err := s.encrypt(ctx, plain, config)
	if !unhook() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		_ = plain.Close()
		return nil, fmt.Errorf("TLS with the server: %w", err)
	}
	return encrypted, nil
}

// sslRequest asks a server for TLS (manual, 55.7, SSLRequest).
var sslRequest = binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, 80877103)

// encrypt starts TLS, on request or at once (sslnegotiation=direct).
func (s *Store) encrypt(ctx context.Context, plain net.Conn, config *tls.Config) (net.Conn, error) {
	if s.cfg.SSLNegotiation != "direct" {
		if _, err := plain.Write(sslRequest); err != nil {
			return nil, err
		}
		var answer [1]byte // and nothing behind it, which could not be trusted
		if _, err := io.ReadFull(plain, answer[:]); err != nil {
			return nil, err
		}
		if answer[0] != 'S' {
			return nil, errors.New("the server has none: set ssl = on there, or sslmode=disable in the guard's URL")
		}
	}
	encrypted := tls.Client(tlsconfig.NewTransport(plain, nil), config)
	return encrypted, encrypted.HandshakeContext(ctx)
}

// dialTarget returns the network and address of the server in cfg.
func dialTarget(cfg *pgx.ConnConfig) (network, address string) {
	if strings.HasPrefix(cfg.Host, "/") {
		return "unix", cfg.Host + "/.s.PGSQL." + strconv.Itoa(int(cfg.Port))
	}
	return "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}
