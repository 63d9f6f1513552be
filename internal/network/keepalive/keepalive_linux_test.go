package keepalive

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/test/must"
)

// option reads an option of a connection.
func option(t *testing.T, c net.Conn, name int) (value int) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	must.Succeed(t, err)
	var failure error
	err = raw.Control(func(fd uintptr) {
		value, failure = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name)
	})
	if err != nil || failure != nil {
		t.Fatal(err, failure)
	}
	return value
}

func TestBothEndsOfAConnectionNoticeASilentPeer(t *testing.T) {
	both := Timeouts{Silence: 30 * time.Second, User: 20 * time.Second}
	l, err := both.ListenConfig().Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer l.Close()
	dialed, err := both.Dialer().DialContext(t.Context(), "tcp", l.Addr().String())
	must.Succeed(t, err)
	defer dialed.Close()
	accepted, err := l.Accept()
	must.Succeed(t, err)
	defer accepted.Close()
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	opened = both.Listener(opened)
	defer opened.Close()
	other, err := net.Dial("tcp", opened.Addr().String())
	must.Succeed(t, err)
	defer other.Close()
	inherited, err := opened.Accept()
	must.Succeed(t, err)
	defer inherited.Close()
	for name, c := range map[string]net.Conn{
		"dialed": dialed, "accepted": accepted, "accepted of another's listener": inherited,
	} {
		for what, want := range map[string]struct{ option, value int }{
			"user timeout in ms":    {unix.TCP_USER_TIMEOUT, 20_000},
			"silence before probes": {unix.TCP_KEEPIDLE, 15},
			"between probes":        {unix.TCP_KEEPINTVL, 5},
			"probes":                {unix.TCP_KEEPCNT, 3},
		} {
			if got := option(t, c, want.option); got != want.value {
				t.Errorf("%s: %s is %d, want %d", name, what, got, want.value)
			}
		}
	}
}
