package endtoend

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
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

// activated is a guard whose listeners belong to this process, as they do to a service manager.
func (s *stack) activated() *guard {
	s.t.Helper()
	var files []*os.File
	var at []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			s.t.Fatal(err)
		}
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
