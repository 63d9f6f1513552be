package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// RedisOptions configure Redis.
type RedisOptions struct {
	Args []string // more arguments for redis-server, e.g. "--appendonly", "yes"
}

// Redis is a Redis server. By default it saves nothing, so its data is gone after Kill or Stop. As
// a primary it synchronises a replica at once.
type Redis struct {
	Process
	port int
}

// StartRedis starts a server. It returns a [MissingError] if Redis is not installed.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	program, err := system().redis()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("redis", nil)
	if err != nil {
		return nil, err
	}
	r := &Redis{}
	r.spec = spec{
		name: "redis", dir: dir,
		command: func() []string {
			return append([]string{program, "--port", strconv.Itoa(r.port), "--bind", host, "--dir", dir,
				"--unixsocket", r.socket(), "--save", "", "--appendonly", "no",
				"--repl-diskless-sync-delay", "0"}, o.Args...)
		},
		ready: r.answers,
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
	}
	err = startOnFreePorts(ctx, 1, func(ports []int) error {
		r.port = ports[0]
		return r.Start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Addr returns the TCP address, 127.0.0.1:port.
func (r *Redis) Addr() string { return hostPort(r.port) }

// URL returns a connection URL for database 0.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

func (r *Redis) socket() string { return filepath.Join(r.spec.dir, "s") }

// answers sends PING over the Unix socket, which, unlike a port, cannot belong to another server. A
// server that requires a password is up; one that still loads its data is not.
func (r *Redis) answers(ctx context.Context) error { return pong(ctx, "unix", r.socket()) }

// pong asks a server whether it is up.
func pong(ctx context.Context, network, addr string) error {
	reply, err := request(ctx, network, addr, "PING\r\n")
	if err != nil {
		return err
	}
	if reply == "+PONG" || strings.HasPrefix(reply, "-NOAUTH") {
		return nil
	}
	return fmt.Errorf("PING: %s", reply)
}

// request sends a text on a new connection and returns the first line of the answer.
func request(ctx context.Context, network, addr, text string) (string, error) {
	c, err := dial(ctx, network, addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

// dial connects. The connection, with all reads and writes, has a timeout of two seconds, or the
// context's deadline if that is earlier: a ZooKeeper that starts does not answer some requests, and
// the caller retries.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	return c, c.SetDeadline(deadline)
}

func (p places) redis() (string, error) {
	if file := first(p.path, "redis-server"); file != "" {
		return file, nil
	}
	return "", missing("redis-server", "redis-server", "redis")
}
