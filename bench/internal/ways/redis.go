package ways

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// Redis is a Redis with the ways to it.
type Redis struct {
	set
	Server  *servers.Redis
	Guard   *GuardProcess
	program string
	addr    string // with TLS, if that is wanted
}

// StartRedis starts a Redis, a guard, and, if they are wanted, the proxies for Redis.
func StartRedis(ctx context.Context, o Options) (s *Redis, err error) {
	s = &Redis{program: o.Guard}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	ro := servers.RedisOptions{Args: o.Redis}
	encrypted := ""
	if o.TLS {
		if encrypted, err = s.encryptRedis(&ro); err != nil {
			return s, err
		}
	}
	s.Server, err = servers.StartRedis(ctx, ro)
	if err != nil {
		return s, err
	}
	s.addr = cmp.Or(encrypted, s.Server.Addr())
	s.servers = append(s.servers, s.Server)
	s.Ways = append(s.Ways, &Way{Name: Direct, Addr: s.addr, TLS: o.TLS})
	s.version(ctx, "redis-server", "--version")
	if err := install(ctx, o.Guard, "GUARD_REDIS_UPSTREAM="+s.Server.URL()); err != nil {
		return s, err
	}
	if s.Guard, err = s.NewGuard(ctx, nil); err != nil {
		return s, err
	}
	s.Ways = append(s.Ways, &Way{Name: Guard, Addr: s.Guard.Redis, TLS: o.TLS, pid: s.Guard.PID})
	if o.Peers {
		err = s.startPeers(ctx, o.Progress)
	}
	return s, err
}

// NewGuard starts one more guard, with more settings. Close ends it, if nobody has before.
func (s *Redis) NewGuard(ctx context.Context, settings map[string]string) (*GuardProcess, error) {
	g, err := StartGuard(ctx, GuardOptions{
		Program: s.program, Redis: s.url(), Settings: s.tls.forGuard(settings),
	})
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, g)
	return g, nil
}

// encryptRedis has the server listen with TLS on a port of its own, whose address it returns.
func (s *Redis) encryptRedis(o *servers.RedisOptions) (address string, err error) {
	if err := s.encrypt(); err != nil {
		return "", err
	}
	at, err := servers.FreeAddresses(1)
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(at[0])
	o.Args = append(slices.Clone(o.Args), "--tls-port", port, "--tls-cert-file", s.tls.pair.CertFile,
		"--tls-key-file", s.tls.pair.KeyFile, "--tls-ca-cert-file", s.tls.authority.File,
		"--tls-auth-clients", "no")
	return at[0], nil
}

// url is the URL of the server.
func (s *Redis) url() string {
	if s.tls == nil {
		return s.Server.URL()
	}
	return "rediss://" + s.addr + "/0?sslrootcert=" + s.tls.authority.File
}

func (s *Redis) startPeers(ctx context.Context, progress io.Writer) error {
	p, err := started(servers.StartHAProxy(ctx, s.addr, servers.HAProxyOptions{TLS: s.tls.forProxy()}))
	if err := s.add(HAProxy, progress, p, err); err != nil {
		return err
	}
	s.version(ctx, "haproxy", "-v")
	if s.tls != nil {
		return nil // twemproxy has no TLS
	}
	p, err = started(servers.StartTwemproxy(ctx, s.Server))
	if err := s.add(Twemproxy, progress, p, err); err != nil {
		return err
	}
	s.version(ctx, "nutcracker", "--version")
	return nil
}

// claimLimit bounds the claim of a new connection.
const claimLimit = 2 * time.Minute

// DialRedis opens a connection. Behind a guard it is under a token of the resource. Servers and
// other proxies get no claim: twemproxy closes the connection when it does not know a command.
func (w *Way) DialRedis(ctx context.Context, resource string, token int64) (net.Conn, error) {
	conn, err := w.dial(ctx)
	if err != nil || w.Name != Guard {
		return conn, err
	}
	return claimed(conn, resource, token)
}

// dial opens a connection, with TLS if the way has it.
func (w *Way) dial(ctx context.Context) (net.Conn, error) {
	if !w.TLS {
		return new(net.Dialer).DialContext(ctx, "tcp", w.Addr)
	}
	// it costs next to nothing to verify
	d := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	return d.DialContext(ctx, "tcp", w.Addr)
}

// DialRedis opens a connection to a guard, and puts it under a token of the resource. It returns
// once the guard has admitted it.
func DialRedis(ctx context.Context, addr, resource string, token int64) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return claimed(conn, resource, token)
}

func claimed(conn net.Conn, resource string, token int64) (net.Conn, error) {
	if err := claim(conn, resource, token); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func claim(conn net.Conn, resource string, token int64) error {
	if err := conn.SetDeadline(time.Now().Add(claimLimit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "FENCE %s %d\r\n", resource, token); err != nil {
		return err
	}
	// The guard sends nothing after this line, so the buffer takes nothing away.
	line, err := bufio.NewReaderSize(conn, 64).ReadString('\n')
	if err == nil && line != "+OK\r\n" {
		err = fmt.Errorf("FENCE: %q", line)
	}
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}
