package ways

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/servers"
)

// Redis is a Redis with the ways to it.
type Redis struct {
	set
	Server  *servers.Redis
	Guard   *GuardProcess
	program string
}

// StartRedis starts a Redis, a guard, and, if they are wanted, the proxies for Redis.
func StartRedis(ctx context.Context, o Options) (s *Redis, err error) {
	s = &Redis{program: o.Guard}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	s.Server, err = servers.StartRedis(ctx, servers.RedisOptions{Args: o.Redis})
	if err != nil {
		return s, err
	}
	s.servers = append(s.servers, s.Server)
	s.Ways = append(s.Ways, &Way{Name: Direct, Addr: s.Server.Addr()})
	s.version(ctx, "redis-server", "--version")
	if err := install(ctx, o.Guard, "GUARD_REDIS_UPSTREAM="+s.Server.URL()); err != nil {
		return s, err
	}
	if s.Guard, err = s.NewGuard(ctx, nil); err != nil {
		return s, err
	}
	s.Ways = append(s.Ways, &Way{Name: Guard, Addr: s.Guard.Redis, pid: s.Guard.PID})
	if o.Peers {
		err = s.startPeers(ctx, o.Progress)
	}
	return s, err
}

// NewGuard starts one more guard, with more settings. Close ends it, if nobody has before.
func (s *Redis) NewGuard(ctx context.Context, settings map[string]string) (*GuardProcess, error) {
	g, err := StartGuard(ctx, GuardOptions{
		Program: s.program, Redis: s.Server.URL(), Settings: settings,
	})
	if err != nil {
		return nil, err
	}
	s.servers = append(s.servers, g)
	return g, nil
}

func (s *Redis) startPeers(ctx context.Context, progress io.Writer) error {
	p, err := started(servers.StartHAProxy(ctx, s.Server.Addr()))
	if err := s.add(HAProxy, progress, p, err); err != nil {
		return err
	}
	s.version(ctx, "haproxy", "-v")
	p, err = started(servers.StartTwemproxy(ctx, s.Server))
	if err := s.add(Twemproxy, progress, p, err); err != nil {
		return err
	}
	s.version(ctx, "nutcracker", "--version")
	return nil
}

// claimLimit bounds the claim of a new connection.
const claimLimit = 2 * time.Minute

// DialRedis opens a connection. Behind a guard it is under a token of the resource. Servers and other proxies get
// no claim: twemproxy closes the connection when it does not know a command.
func (w *Way) DialRedis(ctx context.Context, resource string, token int64) (net.Conn, error) {
	if w.Name == Guard {
		return DialRedis(ctx, w.Addr, resource, token)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", w.Addr)
}

// DialRedis opens a connection to a guard, and puts it under a token of the resource. It returns once
// the guard has admitted it.
func DialRedis(ctx context.Context, addr, resource string, token int64) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
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
