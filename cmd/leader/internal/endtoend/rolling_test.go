package endtoend

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// restart stops the guard as a service manager does, and starts it again.
func (g *guard) restart() {
	g.s.t.Helper()
	g.signal(syscall.SIGTERM)
	if err := g.cmd.Wait(); err != nil {
		g.s.t.Fatalf("the guard did not stop in order: %v", err)
	}
	g.start()
}

func TestGuardsAreRestartedOneByOneUnderLoadWithoutAFailedTransaction(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	guards := []*guard{s.guard(), s.guard()}
	load := s.traffic(s.term("leader").Token(), guards...)
	load.progress(20)
	for range 4 {
		for _, g := range guards {
			g.restart()
			load.progress(20)
		}
	}
	load.check()
}

// balanced is a load balancer before these guards, with the configuration of docs/upgrading.md.
func (s *stack) balanced(guards ...*guard) *guard {
	s.t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program = "/usr/sbin/haproxy"; !exists(program) {
			s.t.Skip("haproxy is not installed: make deps-bench")
		}
	}
	at := serverstest.FreeAddresses(s.t, 2)
	b := &guard{s: s, pg: at[0], redis: at[1]}
	config := "defaults\n mode tcp\n option redispatch 1\n timeout connect 5s\n timeout client 1h\n " +
		"timeout server 1h\n"
	for _, port := range []struct {
		name, at string
		of       func(*guard) string
	}{
		{"postgres", b.pg, func(g *guard) string { return g.pg }},
		{"redis", b.redis, func(g *guard) string { return g.redis }},
	} {
		config += fmt.Sprintf("listen %s\n bind %s\n option httpchk GET /readyz\n", port.name, port.at)
		for i, g := range guards {
			_, http, err := net.SplitHostPort(g.page)
			must.Succeed(s.t, err)
			config += fmt.Sprintf(" server guard-%d %s check port %s inter 100ms rise 1 fall 3\n", i,
				port.of(g), http)
		}
	}
	file := filepath.Join(s.t.TempDir(), "haproxy.cfg")
	must.Succeed(s.t, os.WriteFile(file, []byte(config), 0o600))
	p, err := servers.NewProgram(servers.ProgramOptions{
		Name: "haproxy", Command: []string{program, "-db", "-f", file},
		Log: filepath.Join(s.t.TempDir(), "log"),
		Ready: func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.redis)
			if err == nil {
				err = c.Close()
			}
			return err
		},
	})
	if err == nil {
		s.t.Cleanup(func() { _ = p.Close() })
		err = p.Start(s.ctx)
	}
	must.Succeed(s.t, err)
	return b
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func TestGuardsBehindALoadBalancerAreRestartedUnderLoadWithoutAFailedTransaction(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	guards := []*guard{s.prepared(serverstest.FreeAddresses(t, 3)),
		s.prepared(serverstest.FreeAddresses(t, 3))}
	for _, g := range guards {
		g.env = []string{"GUARD_DRAIN_DELAY=1s"}
		g.start()
	}
	load := s.traffic(s.term("leader").Token(), s.balanced(guards...))
	load.progress(20)
	for range 2 {
		for _, g := range guards {
			g.restart()
			load.progress(20)
		}
	}
	load.check()
}

// activated is a guard whose listeners belong to this process, as they do to a service manager.
func (s *stack) activated() *guard {
	s.t.Helper()
	var files []*os.File
	var at []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Succeed(s.t, err)
		f, err := l.(*net.TCPListener).File()
		must.Succeed(s.t, err)
		s.t.Cleanup(func() { _ = f.Close() })
		_ = l.Close() // the file is another reference to the same socket
		files, at = append(files, f), append(at, l.Addr().String())
	}
	g := s.prepared(at)
	g.sockets = files
	g.start()
	return g
}

func TestASingleGuardIsRestartedUnderLoadAndRefusesNoConnection(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	g := s.activated()
	load := s.traffic(s.term("leader").Token(), g)
	load.progress(20)
	for range 6 {
		g.restart()
		load.progress(20)
	}
	load.check()
	for name, a := range load.kinds {
		if a.refused > 0 {
			t.Errorf("%s: %s connections were refused", name, strconv.Itoa(a.refused))
		}
	}
}
