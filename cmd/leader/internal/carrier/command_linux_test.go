package carrier

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/network/tally"
	"github.com/ringfence/ringfence/internal/process"
	"github.com/ringfence/ringfence/internal/test/must"
)

// The test's program is also what connects: it prints what the listener has said.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "dial" {
		c, err := net.Dial(os.Args[2], os.Args[3])
		if err == nil {
			_, err = io.Copy(os.Stdout, c)
		}
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// admitting says "in" to each process that a command admits, at an address that all users reach.
func admitting(t *testing.T, network string, c *Command) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rf-admit-")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(dir, "s")
	}
	l, err := net.Listen(network, at)
	must.Succeed(t, err)
	if network == "unix" {
		_, _ = os.Chmod(dir, 0o755), os.Chmod(at, 0o777)
	}
	only := peeruser.Listener{
		Listener: l, Admit: c.Admit, Log: tally.NewLog(slog.New(slog.DiscardHandler)),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := only.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "in")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = only.Close(); <-done })
	return l.Addr().String()
}

// dialer is a copy of the test's program that all users may run.
func dialer(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	must.Succeed(t, err)
	program, err := os.ReadFile(exe)
	must.Succeed(t, err)
	dir, err := os.MkdirTemp("", "rf-dialer-")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "dialer")
	must.Succeed(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, program, 0o755)))
	return path
}

func environOf(c *Command) []string { return append(os.Environ(), process.Mark+"="+c.mark) }

// says runs a shell's command as a term's command, which prints what the listener says to "$@".
func says(t *testing.T, c *Command, env []string, script, dialer, network, at string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script, "sh", dialer, "dial", network, at)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	must.Succeed(t, cmd.Start())
	if c != nil {
		c.Started(cmd.Process.Pid)
	}
	_ = cmd.Wait()
	return out.String()
}

func TestOnlyProcessesOfTheCommandAreAdmitted(t *testing.T) {
	dialer := dialer(t)
	for _, network := range []string{"tcp", "unix"} {
		for script, want := range map[string]string{
			`exec "$@"`:                                       "in",
			`env -i "$@"; true`:                               "in", // a child without our variable
			`sh -c '"$@"; true' - "$@"; true`:                 "in",
			`setsid "$@"; true`:                               "in", // out of the group
			`(setsid "$@" &); sleep 0.2`:                      "in", // and with another parent
			`setpriv --reuid=65534 --clear-groups "$@"; true`: "in",
			`setpriv --reuid=65534 --clear-groups env -i setsid "$@"; true`: "in",
		} {
			if strings.HasPrefix(script, "setpriv") && os.Getuid() != 0 {
				continue
			}
			c := NewCommand(process.NewMark())
			at := admitting(t, network, c)
			env := environOf(c)
			if got := says(t, c, env, script, dialer, network, at); got != want {
				t.Errorf("%s, %s: %q", network, script, got)
			}
		}
		// The command of another term, or of none.
		c, earlier := NewCommand(process.NewMark()), NewCommand(process.NewMark())
		at := admitting(t, network, c)
		running := exec.Command("sleep", "600")
		running.Env = environOf(c)
		running.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		must.Succeed(t, running.Start())
		c.Started(running.Process.Pid)
		for _, env := range [][]string{os.Environ(), environOf(earlier)} {
			if got := says(t, nil, env, `exec "$@"`, dialer, network, at); got != "" {
				t.Errorf("%s: a stranger is told %q", network, got)
			}
		}
		_ = running.Process.Kill()
		_ = running.Wait()
	}
}

// A process that is left over tries the address that it knows.
func TestNoTermHasTheAddressOfAnother(t *testing.T) {
	seen := map[string]bool{}
	for range 2000 {
		for _, kind := range []string{"postgres", "redis"} {
			l, err := listen(t.Context(), Address{Kind: kind}, false, peeruser.Listener{
				Admit: NewCommand(process.NewMark()).Admit, Log: tally.NewLog(slog.New(slog.DiscardHandler)),
			})
			must.Succeed(t, err)
			at := l.Addr().String()
			if seen[at] {
				t.Errorf("%s a second time", at)
			}
			seen[at] = true
			_ = l.Close()
		}
	}
}

func TestAFolderIsOfOneTermAndGoesWithIt(t *testing.T) {
	var before string
	for range 100 {
		at, remove, err := ownFolder("postgres")
		must.Succeed(t, err)
		if at == before || (Address{"postgres", at}).check(true) != nil {
			t.Errorf("%s after %s", at, before)
		}
		before = at
		l, err := net.Listen("unix", strings.TrimPrefix(at, unixPrefix))
		must.Succeed(t, err)
		_ = l.Close()
		remove()
		if _, err := os.Stat(filepath.Dir(strings.TrimPrefix(at, unixPrefix))); err == nil {
			t.Errorf("%s is left", at)
		}
	}
}
