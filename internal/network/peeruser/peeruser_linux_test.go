package peeruser

import (
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/network/tally"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/otheruser"
)

func TestTheKernelNamesTheUser(t *testing.T) {
	dir, err := os.MkdirTemp("", "peer") // which others may enter
	must.Succeed(t, err)
	defer os.RemoveAll(dir)
	must.Succeed(t, os.Chmod(dir, 0o755))
	for _, way := range []struct{ network, address, host string }{
		{"unix", filepath.Join(dir, "s"), ""}, {"tcp", "127.0.0.1:0", "127.0.0.1"},
		{"tcp", "[::1]:0", "::1"},
	} {
		l, err := net.Listen(way.network, way.address)
		if err != nil {
			t.Logf("not tried: %v", err)
			continue
		}
		defer l.Close()
		at := l.Addr().String()
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			at = net.JoinHostPort(way.host, strconv.Itoa(tcp.Port))
		} else if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
		otheruser.Dial(t, otheruser.Nobody, way.network, at)
		c, err := l.Accept()
		must.Succeed(t, err)
		defer c.Close()
		if p, err := Of(c); p.User != otheruser.Nobody || err != nil {
			t.Errorf("%s: got %v, %v", at, p, err)
		}
	}
}

// Java connects to 127.0.0.1 with a socket for both kinds of addresses.
func TestASocketForBothKindsOfAddressesIsFound(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	to := l.Addr().(*net.TCPAddr)
	must.Succeed(t, unix.Connect(fd, &unix.SockaddrInet6{
		Port: to.Port, Addr: [16]byte(to.IP.To16()),
	}))
	c, err := l.Accept()
	must.Succeed(t, err)
	defer c.Close()
	if p, err := Of(c); p.User != os.Getuid() || err != nil {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestOtherUsersAreClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	var log strings.Builder
	otheruser.Dial(t, otheruser.Nobody, "tcp", l.Addr().String()) // before ours
	ours, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	defer ours.Close()
	accepted, err := Listener{
		Listener: l, Admit: OnlyUser(os.Getuid()),
		Log: tally.NewLog(slog.New(slog.NewTextHandler(&log, nil))),
	}.Accept()
	must.Succeed(t, err)
	defer accepted.Close()
	if accepted.RemoteAddr().String() != ours.LocalAddr().String() ||
		!strings.Contains(log.String(), "user=65534") {
		t.Errorf("accepted %v, not %v; %s", accepted.RemoteAddr(), ours.LocalAddr(), &log)
	}
}

// A process that has closed its socket has left bytes in it. The kernel forgets whose it was.
func TestAClosedSocketIsNobodys(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	_, err = io.WriteString(c, "left behind")
	must.Succeed(t, err)
	accepted, err := l.Accept()
	must.Succeed(t, err)
	defer accepted.Close()
	_ = c.Close()
	if p, err := Of(accepted); err == nil {
		t.Errorf("%v", p)
	}
}
