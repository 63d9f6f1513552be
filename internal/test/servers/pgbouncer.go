package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
)

// PgBouncerOptions configure PgBouncer.
type PgBouncerOptions struct {
	User string // of every server session; default: the superuser "postgres"
	TLS  *Pair  // what clients see; the server is reached with TLS, too. nil: no TLS
	Mode string // pool_mode; default: session

	RefuseOptions bool // as PgBouncer does unless ignore_startup_parameters has options
}

// PgBouncer is a pooler in front of a Postgres. A client gets a server session of
// the configured user, regardless of its own user name.
type PgBouncer struct {
	Process
	user string
	mode string
	port int
}

// StartPgBouncer starts a pooler for the upstream. It returns a [MissingError] if PgBouncer is not
// installed.
func StartPgBouncer(
	ctx context.Context, upstream *Postgres, o PgBouncerOptions,
) (*PgBouncer, error) {
	program, err := system().pgbouncer()
	if err != nil {
		return nil, err
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("pgb", acc)
	if err != nil {
		return nil, err
	}
	b := &PgBouncer{user: cmp.Or(o.User, "postgres"), mode: cmp.Or(o.Mode, "session")}
	b.spec = spec{
		name: "pgbouncer", dir: dir, account: acc,
		command: func() []string { return []string{program, b.configFile()} },
		ready:   b.answers,
		// It has no data, and does not notify its clients when it exits. Since 1.23 it waits for them
		// after SIGTERM; earlier versions do not handle SIGQUIT and die from it with a core dump.
		stop: syscall.SIGKILL,
		quit: syscall.SIGKILL,
	}
	err = startOnFreePorts(ctx, 1, func(ports []int) error {
		b.port = ports[0]
		config := b.config(upstream, !o.RefuseOptions) + b.encryption(o.TLS)
		if err := acc.writeFile(b.configFile(), config); err != nil {
			return err
		}
		if o.TLS != nil {
			err := errors.Join(acc.writeFile(b.certFile(), string(o.TLS.Cert)),
				acc.writeFile(b.keyFile(), string(o.TLS.Key)))
			if err != nil {
				return err
			}
		}
		return b.Start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// config tries again a second after Postgres could not be reached. With options it lets clients
// send these. The pooler drops those that it cannot forward, so code that must detect a pooler has
// to detect it in another way.
func (b *PgBouncer) config(upstream *Postgres, options bool) string {
	ignored := "extra_float_digits"
	if options {
		ignored += ",options"
	}
	_, port, _ := net.SplitHostPort(upstream.Addr())
	return fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
max_client_conn = 1000
default_pool_size = 250
server_login_retry = 1
ignore_startup_parameters = %s
`, host, port, b.user, host, b.port, b.mode, ignored)
}

// encryption lets clients do without TLS, too: the pooler is asked in plain text whether it is up.
func (b *PgBouncer) encryption(t *Pair) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(`server_tls_sslmode = require
client_tls_sslmode = allow
client_tls_cert_file = %s
client_tls_key_file = %s
`, b.certFile(), b.keyFile())
}

func (b *PgBouncer) certFile() string { return filepath.Join(b.spec.dir, "server.crt") }

func (b *PgBouncer) keyFile() string { return filepath.Join(b.spec.dir, "server.key") }

func (b *PgBouncer) configFile() string { return filepath.Join(b.spec.dir, "pgbouncer.ini") }

// Addr returns the TCP address, 127.0.0.1:port.
func (b *PgBouncer) Addr() string { return hostPort(b.port) }

// URL returns a connection URL through the pooler, without TLS.
func (b *PgBouncer) URL(user, database string) string {
	return postgresURL(user, b.Addr(), database)
}

// answers looks at the log first, since the port might belong to another pooler.
func (b *PgBouncer) answers(ctx context.Context) error {
	r := b.live()
	if r == nil || !strings.Contains(tail(b.logFile(), r.logFrom, keepLines), "process up") {
		return errors.New("not up yet")
	}
	return pingPostgres(ctx, b.URL("postgres", "postgres"))
}

func (p places) pgbouncer() (string, error) {
	if file := first(p.path, "pgbouncer"); file != "" {
		return file, nil
	}
	return "", missing("pgbouncer", "pgbouncer", "pgbouncer")
}
