package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
)

// Twemproxy relays Redis commands of all clients to one server over one connection. It is here to
// be compared with, in benchmarks.
type Twemproxy struct {
	Process
	port, stats int
}

// StartTwemproxy starts a proxy for the upstream. It returns a [MissingError] if twemproxy is not
// installed.
func StartTwemproxy(ctx context.Context, upstream *Redis) (*Twemproxy, error) {
	program, err := system().twemproxy()
	if err != nil {
		return nil, err
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("twemproxy", acc)
	if err != nil {
		return nil, err
	}
	t := &Twemproxy{}
	t.spec = spec{
		name: "twemproxy", dir: dir, account: acc,
		command: func() []string {
			return []string{program, "--conf-file", t.configFile(), "--stats-addr", host,
				"--stats-port", strconv.Itoa(t.stats), "--output", filepath.Join(dir, "log"),
				"--pid-file", filepath.Join(dir, "pid")}
		},
		ready: func(ctx context.Context) error { return reachable(ctx, t.Addr()) },
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
	}
	err = startOnFreePorts(ctx, 2, func(ports []int) error {
		t.port, t.stats = ports[0], ports[1]
		if err := acc.writeFile(t.configFile(), t.config(upstream)); err != nil {
			return err
		}
		return t.Start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Twemproxy) config(upstream *Redis) string {
	return fmt.Sprintf(`relay:
  listen: %s
  redis: true
  auto_eject_hosts: false
  servers:
    - %s:1
`, t.Addr(), upstream.Addr())
}

func (t *Twemproxy) configFile() string { return filepath.Join(t.spec.dir, "nutcracker.yml") }

// Addr returns the TCP address, 127.0.0.1:port.
func (t *Twemproxy) Addr() string { return hostPort(t.port) }

func (p places) twemproxy() (string, error) {
	if file := first(p.path, "nutcracker"); file != "" {
		return file, nil
	}
	return "", missingFor("deps-bench", "twemproxy (nutcracker)", "nutcracker", "twemproxy")
}
