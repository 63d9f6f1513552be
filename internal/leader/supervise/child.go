package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// groupPatience is how long a killed process group may take to disappear before leader continues. A
// process that the kernel cannot end by then is blocked in a device driver.
const groupPatience = 5 * time.Second

// streamPatience is how long the command's streams may stay open after its end, since a process
// that has left the group may hold them for ever. Later output is lost, so this is longer than a
// busy machine stalls.
const streamPatience = 5 * time.Second

// Child is a command that runs in its own process group.
type Child struct {
	Reaper *Reaper // nil if init reaps orphans
	Dir    string  // its working directory; "" for leader's

	cmd      *exec.Cmd
	terminal *terminal
	ended    chan struct{} // closed when the group is gone

	mu   sync.Mutex
	pgid int           // of the group, and the process id of the command itself
	gone bool          // the group was killed; another group may get its number from now on
	told bool          // the command was told to end
	rest time.Duration // how long the rest of the group then has

	remains bool // processes of the group have outlived groupPatience
	kills   int  // for want of memory, when the command was started
}

// Start starts the command. If it returns an error, the command has not run.
func (c *Child) Start(argv, env []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Env, c.cmd.Dir = env, c.Dir
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
	c.cmd.WaitDelay = streamPatience // for streams that are not files
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.ended = make(chan struct{})
	c.kills = memoryKills()
	dieWithParent(c.cmd.SysProcAttr)
	c.terminal = borrowTerminal(stdin)
	c.terminal.lend(c.cmd.SysProcAttr)
	started := make(chan error)
	go c.live(started)
	return <-started
}

// live runs from the start of the command to the end of its group, on one thread, because the
// kernel kills the command when the thread that started it ends. live does not unlock the thread,
// so the thread ends with it.
func (c *Child) live(started chan<- error) {
	runtime.LockOSThread()
	if err := c.Reaper.start(c.cmd); err != nil {
		c.terminal.takeBack()
		started <- err
		return
	}
	c.pgid = c.cmd.Process.Pid
	c.terminal.shield()
	started <- nil

	c.finish()
	c.Reaper.finished(c.pgid)
	c.awaitKilled()
	c.terminal.takeBack()
	close(c.ended)
}

// Pid returns the process id of the command, which is also that of its group, once it is started.
func (c *Child) Pid() int { return c.pgid }

// Remains reports whether processes of the killed group still exist, because the kernel cannot end
// them yet. Call it once the supervisor has returned.
func (c *Child) Remains() bool { return c.remains }

// ExitCode returns the command's exit code, once its supervisor has returned.
func (c *Child) ExitCode() int { return ExitCode(c.cmd.ProcessState) }

// WantOfMemory says to a person what OutOfMemory means.
const WantOfMemory = "it was killed, and while it ran the kernel ended a process for want of memory " +
	"(dmesg says which); give it more, or let it need less"

// OutOfMemory reports whether KILL has ended the command, and the kernel has ended a process of this machine for
// want of memory meanwhile. Call it once the supervisor has returned.
func (c *Child) OutOfMemory() bool {
	return c.ExitCode() == 128+int(syscall.SIGKILL) && memoryKills() > c.kills
}

// Failure is the error of a command that has failed, with the end of what it has written to stderr. Call it
// once the supervisor has returned.
func (c *Child) Failure(stderr string) error {
	code := c.ExitCode()
	text := fmt.Sprintf("exit code %d", code)
	switch {
	case c.OutOfMemory():
		text += " (signal 9): " + WantOfMemory
	case code > 128:
		text += fmt.Sprintf(" (signal %d)", code-128)
	}
	if end := strings.TrimSpace(stderr); end != "" {
		text += ": " + strings.ToValidUTF8(end[max(0, len(end)-1000):], "?")
	}
	return errors.New(text)
}

// ExitCode returns a process's exit code, or 128+n if signal n has ended it.
func ExitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

func (c *Child) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// signal sends to the whole group. It is no error if the group is gone, since most signals are
// meant to end it.
func (c *Child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		_ = syscall.Kill(-c.pgid, s)
	}
}

// tell sends to the command itself, as a shell or a service manager would. A server that forks workers
// ends them itself, in its own order.
func (c *Child) tell(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		_ = syscall.Kill(c.pgid, s)
	}
}

// end tells the command to end. What it leaves behind in its group gets TERM once it has ended, and
// KILL after rest.
func (c *Child) end(rest time.Duration) {
	c.mu.Lock()
	c.told, c.rest = true, rest
	c.mu.Unlock()
	c.tell(syscall.SIGTERM)
}

// dismiss has the rest of the group end, after the command, if that was told to end. It returns when
// nothing is left of the group, or its time is up. A KILL from elsewhere cuts that short.
func (c *Child) dismiss() {
	c.mu.Lock()
	told, rest := c.told, c.rest
	c.mu.Unlock()
	if told && rest > 0 {
		c.signal(syscall.SIGTERM)
		c.signal(syscall.SIGCONT)
		awaitGroup(c.pgid, rest)
	}
}

// killGroup kills the rest of the group, and disables later signals. Once is enough, since a
// process that gets KILL cannot fork any more.
func (c *Child) killGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pgid, syscall.SIGKILL)
	c.gone = true
}

// awaitKilled waits until the killed processes are gone. Until then they may still cause effects.
func (c *Child) awaitKilled() { c.remains = !awaitGroup(c.pgid, groupPatience) }

// awaitGroup reports whether nothing is left of a group within this time.
func awaitGroup(pgid int, limit time.Duration) (gone bool) {
	patience := time.NewTimer(limit)
	defer patience.Stop()
	for wait := time.Millisecond; groupLives(pgid); wait = min(2*wait, 50*time.Millisecond) {
		select {
		case <-patience.C:
			return false
		case <-time.After(wait):
		}
	}
	return true
}
