package agent

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/otheruser"
)

func TestTheFolderOfTheSocketIsMadeForItsUser(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	folder := filepath.Join(t.TempDir(), "ringfence")
	for range 2 { // it is made, and then it exists
		l, err := Listen(t.Context(), UnixPrefix+filepath.Join(folder, "agent.sock"), nil, log)
		must.Succeed(t, err)
		_ = l.Close()
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
	}
	missing := UnixPrefix + filepath.Join(folder, "none", "none", "agent.sock") // as a slip of the pen
	if _, err := Listen(t.Context(), missing, nil, log); err == nil ||
		!strings.Contains(err.Error(), "--listen unix:PATH") {
		t.Errorf("got %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("the rest needs root")
	}
	must.Succeed(t, os.Chown(folder, otheruser.Nobody, otheruser.Nobody))
	_, err := Listen(t.Context(), UnixPrefix+filepath.Join(folder, "agent.sock"), nil, log)
	if err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("got %v", err)
	}
}

func TestAnAgentTakesTheSocketOfOneThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	log := slog.New(slog.DiscardHandler)
	first, err := Listen(t.Context(), "unix:"+path, nil, log)
	must.Succeed(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), "unix:"+path, nil, log); err == nil ||
		!strings.Contains(err.Error(), "a running process listens") {
		t.Errorf("a second agent: %v", err)
	}
	// as after kill -9
	first.Listener.(peeruser.Listener).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = first.Close()
	second, err := Listen(t.Context(), "unix:"+path, nil, log)
	must.Succeed(t, err)
	_ = second.Close()
	must.Succeed(t, os.WriteFile(path, nil, 0o600))
	if _, err := Listen(t.Context(), "unix:"+path, nil, log); err == nil ||
		!strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file: %v", err)
	}
}
