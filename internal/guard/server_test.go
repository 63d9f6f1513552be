package guard

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestAPanicEndsItsOwnConnectionOnly(t *testing.T) {
	s := serve(t, &fake{}, nil)
	victim, other := s.dial(), s.dial()
	s.says(other, "a", "a")
	_, _ = victim.Write([]byte("p"))
	s.ends(victim, "")
	s.says(other, "b", "b")
	s.says(s.dial(), "c", "c")
	_ = other.Close()
	s.stop()
	<-s.done
	if log := s.log.String(); !strings.Contains(log, "a bug") ||
		!strings.Contains(log, "fake_test.go") {
		t.Errorf("the log does not report the panic: %s", log)
	}
	if n := value(t, s.metrics, "ringfence_connections", "fake", "unadmitted"); n != 0 {
		t.Errorf("%v connections are counted as open", n)
	}
}

func TestAFailureIsLoggedOnceWithItsClient(t *testing.T) {
	s := serve(t, &fake{}, nil)
	c := s.dial()
	_, _ = c.Write([]byte("e"))
	s.ends(c, "")
	s.stop()
	<-s.done
	if log := s.log.String(); strings.Count(log, "a failure") != 1 ||
		!strings.Contains(log, c.LocalAddr().String()) {
		t.Errorf("the log: %s", log)
	}
}

func TestAShutdownDrainsAndThenCuts(t *testing.T) {
	var l net.Listener
	s := serve(t, &fake{}, func(s *Server) { s.DrainTimeout, l = time.Hour, s.Listener })
	idle, ending := s.dial(), s.dial()
	s.says(idle, "a", "a")
	s.says(ending, "o", "o")
	s.stop()
	s.ends(idle, "drained")
	s.says(ending, "c", "c")
	s.ends(ending, "drained")
	if err := <-s.done; err != nil {
		t.Errorf("Serve returned an error after a shutdown: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the guard still accepts: %v", err)
	}
	if strings.Contains(s.log.String(), "drain deadline passed") {
		t.Errorf("the log: %s", s.log)
	}

	s = serve(t, &fake{}, func(s *Server) { s.DrainTimeout = 200 * time.Millisecond })
	stuck := s.dial()
	s.says(stuck, "o", "o")
	s.stop()
	s.ends(stuck, "cut: "+ErrDrainTimeout.Error())
	if err := <-s.done; err != nil {
		t.Errorf("Serve returned an error after a shutdown: %v", err)
	}
	if !strings.Contains(s.log.String(), "drain deadline passed") {
		t.Errorf("the log: %s", s.log)
	}
}

func TestAShutdownWithoutClientsIsOverAtOnce(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) { s.DrainTimeout = time.Hour })
	s.stop()
	<-s.done
}

// flaky is a listener that fails a few times, as when file descriptors run out, and then works.
type flaky struct {
	net.Listener
	mu   sync.Mutex
	left int
}

func (f *flaky) Accept() (net.Conn, error) {
	f.mu.Lock()
	fails := f.left > 0
	f.left--
	f.mu.Unlock()
	if fails {
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

func TestListenerErrorsDoNotEndTheServer(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) { s.Listener = &flaky{Listener: s.Listener, left: 3} })
	s.says(s.dial(), "a", "a")
	s.stop()
	<-s.done
	if log := s.log.String(); strings.Count(log, "too many open files") != 2 ||
		!strings.Contains(log, "count=2") {
		t.Errorf("not all of 3 errors are counted in the log: %s", log)
	}
}

func TestAClosedListenerEndsTheServerWithAnError(t *testing.T) {
	var l net.Listener
	s := serve(t, &fake{}, func(s *Server) { l = s.Listener })
	c := s.dial()
	s.says(c, "a", "a")
	_ = l.Close()
	s.ends(c, "drained")
	if err := <-s.done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
