package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// openTerminal opens a pseudo-terminal: the test types on keyboard, and tty is a program's stdin.
func openTerminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	raw, err := keyboard.SyscallConn()
	must.Succeed(t, err)
	var n int
	var errs [2]error
	_ = raw.Control(func(fd uintptr) {
		errs[0] = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		n, errs[1] = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	})
	if errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return keyboard, tty
}

// testTerminal runs leader in the foreground of a shell that reads from the terminal afterwards.
// The shell has no job control, so leader has to return the terminal.
func testTerminal(t *testing.T, program string) {
	keyboard, tty := openTerminal(t)
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	s.env = append(s.env, "LEADER="+program)
	s.program = "/bin/sh"
	shown := leadertest.NewScreen()
	shell := s.prepare("-c", `
		"$LEADER" run orders -- /bin/sh -c 'trap "echo interrupted" INT; stty -echo
			echo ready; read line; echo got $line
			until case $line in *two) ;; *) false ;; esac; do read line; done; echo got $line; exit 5'
		echo "code=$?"; stty -a | tr ";" "\n" | grep -E "susp|echo "; read line; echo "afterwards $line"`)
	shell.cmd.Stdin, shell.cmd.Stdout, shell.cmd.Stderr = tty, tty, tty
	shell.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	shell.begin()
	_ = tty.Close()
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(shown, keyboard) }()

	shown.Await(t, "ready")
	for _, step := range []struct{ typed, shown string }{
		{"one\n", "got one"},      // it can read
		{"\x03\n", "interrupted"}, // a shell that was not reading yet looks at the signal after the line
		{"\x1atwo\n", "two"},      // Ctrl-Z has no effect
		{"", "code=5"},
		{"", "susp = ^Z"}, // the settings are restored
		{"three\n", "afterwards three"},
	} {
		_, err := keyboard.WriteString(step.typed)
		must.Succeed(t, err)
		shown.Await(t, step.shown)
	}
	shell.exits(0)
	<-read
	if strings.Contains(shown.String(), " -echo ") {
		t.Errorf("the terminal was not restored:\n%s", shown)
	}
}
