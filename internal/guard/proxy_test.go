package guard

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// behindProxy serves clients that come through a load balancer of this machine.
func behindProxy(t *testing.T) *served {
	t.Helper()
	return serve(t, &fake{}, func(s *Server) {
		s.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
}

// header names a client, or none.
func header(t *testing.T, client string) []byte {
	t.Helper()
	h := &proxyproto.Header{Version: 2, Command: proxyproto.LOCAL}
	if client != "" {
		h.Command, h.TransportProtocol = proxyproto.PROXY, proxyproto.TCPv4
		h.SourceAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
		h.DestinationAddr = net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:5432"))
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestALoadBalancerNamesItsClient(t *testing.T) {
	s := behindProxy(t)
	for _, client := range []string{"192.0.2.7:4711", ""} {
		c := s.dial()
		s.says(c, string(header(t, client))+"a", "a")
		_, _ = c.Write([]byte("e"))
		s.ends(c, "")
	}
	s.stopped()
	for _, want := range []string{"client=192.0.2.7:4711", "client=127.0.0.1:"} {
		if log := s.log.String(); !strings.Contains(log, want) {
			t.Errorf("%s is not in the log: %s", want, log)
		}
	}
}

// stopped returns when the server has written its last line.
func (s *served) stopped() {
	s.t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		s.t.Error(err)
	}
}

func TestAConnectionOfALoadBalancerWithoutAHeaderIsClosed(t *testing.T) {
	s := behindProxy(t)
	c := s.dial()
	_, _ = c.Write([]byte("aaaaaaaaaaaaaaaa"))
	s.ends(c, "")
	s.stopped()
	if log := s.log.String(); !strings.Contains(log, "PROXY") {
		t.Errorf("the log: %s", log)
	}
}

// A balancer looks each second whether the guard accepts connections.
func TestHealthChecksAreOneLineOfTheLog(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"without a header": nil, "with half a header": header(t, "")[:8],
	} {
		t.Run(name, func(t *testing.T) {
			s := behindProxy(t)
			for n := range 50 {
				c := s.dial()
				_, _ = c.Write(bytes)
				if n > 0 { // the first line stands for one
					_ = c.(*net.TCPConn).SetLinger(0) // sends a reset
				}
				_ = c.Close()
			}
			s.says(s.dial(), string(header(t, ""))+"a", "a") // so the others were accepted before
			s.stopped()
			log := s.log.String()
			if n := strings.Count(log, "connection ended"); n == 0 || n > 6 {
				t.Errorf("%d lines: %s", n, log)
			}
		})
	}
}

func TestNobodyElseMayNameAClient(t *testing.T) {
	s := serve(t, &fake{}, func(s *Server) {
		s.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	c := s.dial()
	h := header(t, "192.0.2.7:4711")
	s.says(c, string(h), string(h))
	_, _ = c.Write([]byte("e"))
	s.ends(c, "")
	s.stopped()
	if log := s.log.String(); strings.Contains(log, "192.0.2.7") {
		t.Errorf("the log: %s", log)
	}
}

func TestAShutdownDoesNotWaitForAHeader(t *testing.T) {
	s := behindProxy(t)
	silent, c := s.dial(), s.dial()
	s.says(c, string(header(t, ""))+"a", "a") // so the silent one was accepted, too
	s.stop()
	s.ends(silent, "")
	s.stopped()
}
