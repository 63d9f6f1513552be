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

// RedisOptions change how Redis is set up.
type RedisOptions struct {
	Args []string // more arguments for redis-server, e.g. "--appendonly", "yes"
}

// Redis is a Redis server. Unless told otherwise it saves nothing: its data is
// gone after Kill or Stop.
type Redis struct {
	Process
	port int
}

// StartRedis starts a server. It returns a [MissingError] when Redis is not
// installed.
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
				"--unixsocket", r.socket(), "--save", "", "--appendonly", "no"}, o.Args...)
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

// Addr is the TCP address, 127.0.0.1:port.
func (r *Redis) Addr() string { return hostPort(r.port) }

// URL is a connection URL for database 0.
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

func (r *Redis) socket() string { return filepath.Join(r.spec.dir, "s") }

// answers asks over the unix socket, which, unlike a port, can be no other
// server's. A server that wants a password is up; one that still loads its data
// is not.
func (r *Redis) answers(ctx context.Context) error {
	reply, err := ask(ctx, "unix", r.socket(), "PING\r\n")
	if err != nil {
		return err
	}
	if reply == "+PONG" || strings.HasPrefix(reply, "-NOAUTH") {
		return nil
	}
	return fmt.Errorf("PING: %s", reply)
}

// ask sends a request on a new connection and returns the first line of the answer.
func ask(ctx context.Context, network, addr, request string) (string, error) {
	c, err := dial(ctx, network, addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte(request)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

// dial connects; connecting and all that is sent and read must be over within
// two seconds and the context's deadline: a ZooKeeper that starts lets some
// requests go unanswered, and is asked again.
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
