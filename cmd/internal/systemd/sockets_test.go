//go:build unix

package systemd

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

func TestMain(m *testing.M) {
	if os.Getenv("SYSTEMD_TEST_CHILD") != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

// child prints what it was started with, then takes the socket "web" and greets one client.
func child() {
	s, err := Inherited(os.Environ())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if _, set := os.LookupEnv(name); set {
			fmt.Println(name, "is still set")
		}
	}
	fmt.Println("passed:", s.list())
	l, err := s.Listener("web")
	if err != nil {
		fmt.Println(err)
		return
	}
	open, _ := exec.Command("sh", "-c", "ls -l /proc/$$/fd | grep -c socket:").Output()
	fmt.Println("sockets of a child:", strings.TrimSpace(string(open)))
	c, err := l.Accept()
	if err == nil {
		_, err = c.Write([]byte("hello"))
		_ = c.Close()
	}
	_ = l.Close()
	fmt.Println("left:", strings.Join(s.Left(), ", "), err)
	s.Close()
}

// start runs a child with these sockets, as the service manager would, and returns what it printed.
func start(t *testing.T, env string, sockets ...*os.File) string {
	t.Helper()
	// Only the process itself knows its id in time.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", env+` exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "SYSTEMD_TEST_CHILD=1")
	cmd.ExtraFiles = sockets
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func file(t *testing.T, s interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := s.File()
	must.Succeed(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func listener(t *testing.T, network, address string) (net.Listener, *os.File) {
	t.Helper()
	l, err := net.Listen(network, address)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, file(t, l.(interface{ File() (*os.File, error) }))
}

func TestASocketOutlivesTheProcessThatServesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": path} {
		l, web := listener(t, network, address)
		_, other := listener(t, "tcp", "127.0.0.1:0")
		var clients []net.Conn
		for range 2 { // nobody accepts them yet
			c, err := net.Dial(network, l.Addr().String())
			must.Succeed(t, err)
			defer c.Close()
			clients = append(clients, c)
		}
		for _, c := range clients {
			out := start(t, "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:other", web, other)
			want := "passed: other, web\nsockets of a child: 0\nleft: other <nil>\n"
			if got, err := io.ReadAll(c); string(got) != "hello" || err != nil || out != want {
				t.Errorf("%s: the client got %q, %v; the process says %s", network, got, err, out)
			}
		}
	}
}

func TestOnlySocketsForThisProcessAreTaken(t *testing.T) {
	_, web := listener(t, "tcp", "127.0.0.1:0")
	l, _ := listener(t, "tcp", "127.0.0.1:0")
	connected, err := net.Dial("tcp", l.Addr().String())
	must.Succeed(t, err)
	defer connected.Close()
	datagrams, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Succeed(t, err)
	defer datagrams.Close()
	plain, err := os.Open(os.Args[0])
	must.Succeed(t, err)
	defer plain.Close()
	for name, test := range map[string]struct {
		env     string
		sockets []*os.File
		says    string
	}{
		"none":      {"", nil, `no socket named "web" was passed to this process, but none`},
		"another's": {"LISTEN_PID=1 LISTEN_FDS=1 LISTEN_FDNAMES=web", []*os.File{web}, "but none"},
		"no names":  {"LISTEN_PID=$$ LISTEN_FDS=1", []*os.File{web}, "but unknown"},
		"two": {"LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=web:web", []*os.File{web, web},
			"2 sockets"},
		"no number": {"LISTEN_PID=$$ LISTEN_FDS=x", nil, `LISTEN_FDS is "x"`},
		"a connection": {"LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web",
			[]*os.File{file(t, connected.(*net.TCPConn))}, "Accept=no"},
		"datagrams": {"LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web", []*os.File{file(t, datagrams)},
			"ListenStream="},
		"a file": {"LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web", []*os.File{plain}, "not a socket"},
	} {
		if out := start(t, test.env, test.sockets...); !strings.Contains(out, test.says) {
			t.Errorf("%s: %s", name, out)
		}
	}
}
