package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
)

// HAProxy relays TCP connections to one server, or to those that pass a check. It is here to be
// compared with, in benchmarks.
type HAProxy struct {
	Process
	port int
}

// HAProxyOptions configure HAProxy.
type HAProxyOptions struct {
	TLS *Pair // what clients see; the server is reached with TLS, too. nil: no TLS

	Servers []string // those that pass the checks are used, in the place of the upstream
	Checks  []HAProxyCheck
	Every   string // how often they are checked, such as "inter 1s fall 1 rise 1"
}

// HAProxyCheck asks by HTTP, at a port of the server's host. The answer must be 200.
type HAProxyCheck struct{ Method, Path, Port string }

// StartHAProxy starts a relay to the upstream, a host:port. It returns a [MissingError] if HAProxy
// is not installed.
func StartHAProxy(ctx context.Context, upstream string, o HAProxyOptions) (*HAProxy, error) {
	program, err := system().haproxy()
	if err != nil {
		return nil, err
	}
	acc, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("haproxy", acc)
	if err != nil {
		return nil, err
	}
	h := &HAProxy{}
	h.spec = spec{
		name: "haproxy", dir: dir, account: acc,
		command: func() []string { return []string{program, "-db", "-f", h.configFile()} },
		ready:   func(ctx context.Context) error { return reachable(ctx, h.Addr()) },
		stop:    syscall.SIGTERM, // closes its connections at once
		quit:    syscall.SIGKILL,
	}
	err = startOnFreePorts(ctx, 1, func(ports []int) error {
		h.port = ports[0]
		if err := acc.writeFile(h.configFile(), h.config(upstream, o)); err != nil {
			return err
		}
		if o.TLS != nil {
			if err := acc.writeFile(h.certFile(), string(o.TLS.Cert)+string(o.TLS.Key)); err != nil {
				return err
			}
		}
		return h.Start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// config leaves everything at its default that bears on speed: one thread for each core.
func (h *HAProxy) config(upstream string, o HAProxyOptions) string {
	client, server := "", ""
	if o.TLS != nil {
		client, server = " ssl crt "+h.certFile(), " ssl verify none"
	}
	return fmt.Sprintf(`global
    maxconn 4000
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen relay
    bind %s%s
`, h.Addr(), client) + h.servers(upstream, o, server)
}

func (h *HAProxy) servers(upstream string, o HAProxyOptions, tls string) string {
	if o.Servers == nil {
		return fmt.Sprintf("    server upstream %s%s\n", upstream, tls)
	}
	text := "    option httpchk\n    default-server check " + o.Every +
		" on-marked-down shutdown-sessions\n"
	for _, c := range o.Checks {
		text += fmt.Sprintf("    http-check connect port %s\n    http-check send meth %s uri %s\n"+
			"    http-check expect status 200\n", c.Port, c.Method, c.Path)
	}
	for i, s := range o.Servers {
		text += fmt.Sprintf("    server s%d %s%s\n", i, s, tls)
	}
	return text
}

func (h *HAProxy) certFile() string { return filepath.Join(h.spec.dir, "certificate.pem") }

func (h *HAProxy) configFile() string { return filepath.Join(h.spec.dir, "haproxy.cfg") }

// Addr returns the TCP address, 127.0.0.1:port.
func (h *HAProxy) Addr() string { return hostPort(h.port) }

// reachable returns nil if somebody listens on the address.
func reachable(ctx context.Context, addr string) error {
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

func (p places) haproxy() (string, error) {
	if file := first(p.path, "haproxy"); file != "" {
		return file, nil
	}
	return "", missingFor("deps-bench", "haproxy", "haproxy", "haproxy")
}
