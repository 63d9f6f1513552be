package endtoend

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/otheruser"
)

// The socket of a .socket unit belongs to the user whose programs stand for election, and not to
// the agent's.
func TestTheAgentServesTheOwnerOfTheServiceManagersSocket(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	dir, err := os.MkdirTemp("", "agent") // which others may enter
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "nobody.sock")
	l, err := net.Listen("unix", path)
	must.Succeed(t, err)
	defer l.Close()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	// The mode lets everybody in: not every system honours it.
	must.Succeed(t, os.Chmod(dir, 0o755))
	must.Succeed(t, os.Chmod(path, 0o777))
	must.Succeed(t, os.Chown(path, otheruser.Nobody, otheruser.Nobody))
	passed, err := l.(*net.UnixListener).File()
	must.Succeed(t, err)
	defer passed.Close()
	program := s.program("leader", "agent")
	cmd := exec.CommandContext(s.ctx, "sh", "-c",
		`LISTEN_PID=$$ exec "$0" agent --listen systemd:agent`, program.Path)
	cmd.Env = append(program.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=agent")
	cmd.ExtraFiles = []*os.File{passed}
	s.run(cmd)

	for user, served := range map[int]bool{otheruser.Nobody: true, 0: true, otheruser.Daemon: false} {
		c := otheruser.Dial(t, user, "unix", path)
		must.Succeed(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, _ = io.WriteString(c, "GET /openapi.yaml HTTP/1.0\r\n\r\n")
		answer, _ := io.ReadAll(c)
		if strings.HasPrefix(string(answer), "HTTP/1.0 200") != served {
			t.Errorf("user %d, served: %t; got %q", user, served, answer)
		}
	}
}
