package supervise

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// groupPatience is how long a killed process group may take to disappear before leader goes on without it. What the
// kernel cannot end by then hangs in a device, not in the program.
const groupPatience = 5 * time.Second

// streamPatience is how long, after the command's end, its streams may take: one that has left the group may hold them for
// ever. What is read later than that is lost, so it is longer than a busy machine stands still.
const streamPatience = 5 * time.Second

// Child is a command that runs in a process group of its own.
type Child struct {
	Reaper *Reaper // nil where orphans are init's
	Dir    string  // where it runs; "" for leader's own directory

	cmd      *exec.Cmd
	terminal *terminal
	ended    chan struct{} // closed when nothing of the group is left

	mu   sync.Mutex
	pgid int  // of the group, and the process id of the command itself
	gone bool // the group was killed; its number may be another's from now on
}

// Start starts the command. Nothing of it has run when start returns an error.
func (c *Child) Start(argv, env []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Env, c.cmd.Dir = env, c.Dir
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
	c.cmd.WaitDelay = streamPatience // where the streams are no files
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.ended = make(chan struct{})
	dieWithParent(c.cmd.SysProcAttr)
	c.terminal = borrowTerminal(stdin)
	c.terminal.lend(c.cmd.SysProcAttr)
	started := make(chan error)
	go c.live(started)
	return <-started
}

// live runs from the start of the command to the end of its group, on one thread: the kernel kills the command when the
// thread that started it ends, not the process. The thread is not unlocked, so it ends with live.
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
	c.awaitGroup()
	c.terminal.takeBack()
	close(c.ended)
}

// Pid is the number of the command, once it is started, and of its group.
func (c *Child) Pid() int { return c.pgid }

// ExitCode is what ExitCode says of the command, once its supervisor has returned.
func (c *Child) ExitCode() int { return ExitCode(c.cmd.ProcessState) }

// ExitCode is a process's own, or 128+n when signal n has ended it.
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

// signal sends to the whole group. A group that is gone is no error: that is where most signals are meant to lead.
func (c *Child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		_ = syscall.Kill(-c.pgid, s)
	}
}

// killGroup ends what the command has left behind, and signals for good: a process that gets KILL forks no more, so
// once is enough.
func (c *Child) killGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pgid, syscall.SIGKILL)
	c.gone = true
}

// awaitGroup waits for the killed processes to be gone: only then can no effect of theirs start any more.
func (c *Child) awaitGroup() {
	patience := time.NewTimer(groupPatience)
	defer patience.Stop()
	for wait := time.Millisecond; groupLives(c.pgid); wait = min(2*wait, 50*time.Millisecond) {
		select {
		case <-patience.C:
			return
		case <-time.After(wait):
		}
	}
}
