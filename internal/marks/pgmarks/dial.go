package pgmarks

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
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

// NewTarget returns the server of a URL, which is one host. timeouts are those of its connections.
func NewTarget(url string, timeouts keepalive.Timeouts) (Target, error) {
	to, err := parseURL(url)
	if err != nil {
		return to, err
	}
	if len(pglogin.Hosts(to.cfg)) > 1 {
		return to, errors.New("a Postgres URL of several hosts: name one")
	}
	to.cfg.DialFunc = timeouts.Dialer().DialContext
	return to, nil
}

// primary returns the configuration of the one server to connect to. until ends when it is no
// longer the primary; of a single one that is not known.
func (to Target) primary(
	ctx context.Context, w wait,
) (cfg *pgx.ConnConfig, until context.Context, err error) {
	if to.several == nil {
		return to.cfg, context.Background(), nil
	}
	return to.several.primary(ctx, w)
}

// Password returns the present password of a URL.
func Password(ctx context.Context, url string) (string, error) {
	to, err := parseURL(url)
	if err != nil {
		return "", err
	}
	if to.password == nil {
		return to.cfg.Password, nil
	}
	return to.password.Read(ctx)
}

// Dial opens a connection to the server for a client's own login: TCP or a Unix socket, with TLS or
// without, as in the URL. Of several hosts it is the primary, for which Dial waits, and until ends
// when another one is. The connection is a *tls.Conn if it is encrypted. Dial sends no startup
// packet.
func (to Target) Dial(ctx context.Context) (
	conn net.Conn, until context.Context, err error,
) {
	cfg, until, err := to.primary(ctx, untilFound)
	if err != nil {
		return nil, nil, err
	}
	conn, err = dial(ctx, cfg, cfg.TLSConfig)
	for _, next := range cfg.Fallbacks {
		// sslmode=prefer and allow: the same server, otherwise encrypted
		if err == nil || ctx.Err() != nil {
			break
		}
		conn, err = dial(ctx, cfg, next.TLSConfig)
	}
	return conn, until, err
}

// dial opens a connection, encrypted if there is a configuration.
func dial(ctx context.Context, cfg *pgx.ConnConfig, config *tls.Config) (net.Conn, error) {
	network, address := dialTarget(cfg)
	plain, err := cfg.DialFunc(ctx, network, address)
	if err != nil || config == nil {
		return plain, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = plain.SetDeadline(time.Unix(1, 0)) })
	encrypted, err := encrypt(ctx, plain, config, cfg.SSLNegotiation == "direct")
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
func encrypt(
	ctx context.Context, plain net.Conn, config *tls.Config, direct bool,
) (net.Conn, error) {
	if !direct {
		if _, err := plain.Write(sslRequest); err != nil {
			return nil, err
		}
		var answer [1]byte // and nothing behind it, which could not be trusted
		if _, err := io.ReadFull(plain, answer[:]); err != nil {
			return nil, err
		}
		if answer[0] != 'S' {
			return nil, errors.New("the server has none: set ssl = on there, or sslmode=disable in the " +
				"guard's URL")
		}
	}
	encrypted := tls.Client(tlsconfig.NewTransport(plain, nil), config)
	return encrypted, encrypted.HandshakeContext(ctx)
}

// closing returns a dialer whose connections are closed when a context ends. A statement at a
// former primary that is silent would keep a control connection, and so the newcomers.
func closing(until context.Context, dial pgconn.DialFunc) pgconn.DialFunc {
	if until.Done() == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return closed{conn, context.AfterFunc(until, func() { _ = conn.Close() })}, nil
	}
}

// closed is a connection that a context closes, until unhook is called.
type closed struct {
	net.Conn
	unhook func() bool
}

// Close closes the connection.
func (c closed) Close() error {
	c.unhook()
	return c.Conn.Close()
}

// dialTarget returns the network and address of the server in cfg.
func dialTarget(cfg *pgx.ConnConfig) (network, address string) {
	if strings.HasPrefix(cfg.Host, "/") {
		return "unix", cfg.Host + "/.s.PGSQL." + strconv.Itoa(int(cfg.Port))
	}
	return "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
}
