package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// SentinelOptions configure a Redis Sentinel.
type SentinelOptions struct {
	Name      string        // of the primary
	Primary   *Redis        // the one at first
	Quorum    int           // how many Sentinels must agree that it is down
	DownAfter time.Duration // how long it must not have answered
	Config    string        // more lines of the configuration
}

// Sentinel watches a Redis server, and promotes a replica of it.
type Sentinel struct {
	Process
	port int
}

// StartSentinel starts one. It returns a [MissingError] if Redis is not installed.
func StartSentinel(ctx context.Context, o SentinelOptions) (*Sentinel, error) {
	program, err := system().redis()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("sentinel", nil)
	if err != nil {
		return nil, err
	}
	s := &Sentinel{}
	file := filepath.Join(dir, "sentinel.conf") // it writes there what it learns
	s.spec = spec{
		name: "sentinel", dir: dir,
		command: func() []string { return []string{program, file, "--sentinel"} },
		ready:   func(ctx context.Context) error { return pong(ctx, "tcp", s.Addr()) },
		stop:    syscall.SIGTERM,
		quit:    syscall.SIGKILL,
	}
	err = startOnFreePorts(ctx, 1, func(ports []int) error {
		s.port = ports[0]
		text := fmt.Sprintf("port %d\nbind %s\ndir %s\n", s.port, host, dir) +
			fmt.Sprintf("sentinel monitor %s %s %d %d\n", o.Name, host, o.Primary.port, o.Quorum) +
			fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", o.Name, o.DownAfter.Milliseconds()) +
			fmt.Sprintf("sentinel failover-timeout %s 5000\n", o.Name) + o.Config
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		return s.Start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Addr returns the TCP address, 127.0.0.1:port.
func (s *Sentinel) Addr() string { return hostPort(s.port) }
