package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/process"
)

// killPatience is how long killed processes may take to disappear before leader continues. What is
// there later is another user's, or blocked in a device driver.
const killPatience = 5 * time.Second

// streamPatience is how long the command's streams may stay open after its end, since a process
// that has left the group may hold them for ever. Later output is lost, so this is longer than a
// busy machine stalls.
const streamPatience = 5 * time.Second

// Child is a command that runs in its own process group.
type Child struct {
	Dir  string // its working directory; "" for leader's
	Mark string // of process.NewMark; Start makes one if it is empty

	cmd      *exec.Cmd
	terminal *terminal
	cgroup   *cgroup
	began    uint64        // when the command was started, in process.Process's time
	ended    chan struct{} // closed when nothing is left, or what is left has outlived killPatience
	exited   chan struct{} // closed when the command itself has ended
	hurried  chan struct{} // closed by the first KILL

	mu   sync.Mutex
	pgid int           // of the group, and the process id of the command itself
	gone bool          // the group was killed; another group may get its number from now on
	told bool          // the command was told to end
	rest time.Duration // how long what it leaves behind then has

	hurry sync.Once

	left    []process.Process // what has outlived killPatience
	emptied bool              // nothing was left of the group once; another one may get its number
	kills   int               // for want of memory, when the command was started
}

// Start starts the command. If it returns an error, the command has not run.
func (c *Child) Start(argv, env []string, stdin io.Reader, stdout, stderr io.Writer) error {
	c.ended, c.exited, c.hurried = make(chan struct{}), make(chan struct{}), make(chan struct{})
	c.kills = memoryKills()
	c.terminal = borrowTerminal(stdin)
	if c.Mark == "" {
		c.Mark = process.NewMark()
	}
	prepare := func() {
		c.cmd = exec.Command(argv[0], argv[1:]...)
		c.cmd.Env, c.cmd.Dir = append(slices.Clip(env), process.Mark+"="+c.Mark), c.Dir
		c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
		c.cmd.WaitDelay = streamPatience // for streams that are not files
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		dieWithParent(c.cmd.SysProcAttr)
		c.terminal.lend(c.cmd.SysProcAttr)
		c.cgroup.lend(c.cmd.SysProcAttr)
	}
	begun := make(chan error)
	go c.live(prepare, begun)
	return <-begun
}

// live runs from the start of the command to the end of its group, on one thread, because the
// kernel kills the command when the thread that started it ends. live does not unlock the thread,
// so the thread ends with it.
func (c *Child) live(prepare func(), begun chan<- error) {
	runtime.LockOSThread()
	if err := c.start(prepare); err != nil {
		c.terminal.takeBack()
		begun <- err
		return
	}
	c.terminal.shield()
	begun <- nil

	c.finish()
	c.left = c.awaitKilled()
	c.terminal.takeBack()
	close(c.ended)
}

// start starts the command, if possible in a control group of its own.
func (c *Child) start(prepare func()) error {
	c.cgroup = newCgroup()
	prepare()
	err := process.Start(c.cmd)
	if err != nil && c.cgroup != nil { // perhaps because of the group
		c.cgroup.close()
		c.cgroup = nil
		prepare()
		err = process.Start(c.cmd)
	}
	if err == nil {
		c.pgid = c.cmd.Process.Pid
		c.began = c.itself().Start
	}
	return err
}

// Pid returns the process id of the command, which is also that of its group, once it is started.
func (c *Child) Pid() int { return c.pgid }

// Left says which processes of the command are there although they were killed: those of another
// user, whom leader may not signal, and those that the kernel cannot end yet. It is empty if there
// are none. Call it once the supervisor has returned.
func (c *Child) Left() string {
	var left []process.Process
	switch {
	case isClosed(c.ended):
		left = c.left
	case !isClosed(c.exited):
		left = []process.Process{c.itself()}
	}
	var names []string
	for _, p := range left {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// ExitCode returns the command's exit code, once its supervisor has returned. It is that of KILL if
// the command itself could not be ended.
func (c *Child) ExitCode() int {
	if !isClosed(c.ended) {
		return 128 + int(syscall.SIGKILL)
	}
	return ExitCode(c.cmd.ProcessState)
}

// WantOfMemory says to a person what OutOfMemory means.
const WantOfMemory = "it was killed, and while it ran the kernel ended a process for want of " +
	"memory (dmesg says which); give it more, or let it need less"

// OutOfMemory reports whether KILL has ended the command, and the kernel has ended a process of
// this machine for want of memory meanwhile. Call it once the supervisor has returned.
func (c *Child) OutOfMemory() bool {
	return isClosed(c.ended) && c.ExitCode() == 128+int(syscall.SIGKILL) && memoryKills() > c.kills
}

// Failure is the error of a command that has failed, with the end of what it has written to stderr.
// Call it once the supervisor has returned.
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

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
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

// kill ends the command and its group, and with it the time that the rest had.
func (c *Child) kill() {
	c.hurry.Do(func() { close(c.hurried) })
	c.cgroup.kill()
	c.signal(syscall.SIGKILL)
}

// awaitKill returns after a kill, when nothing is left, or what is left cannot be ended: the
// command itself, if it has another user.
func (c *Child) awaitKill() {
	patience := time.NewTimer(killPatience)
	defer patience.Stop()
	select {
	case <-c.exited:
		<-c.ended
	case <-patience.C:
	}
}

// killAgain tries once more to end what is left.
func (c *Child) killAgain() {
	if isClosed(c.ended) {
		c.left = c.killRest()
		return
	}
	c.kill()
}

// tell sends to the command itself, as a shell or a service manager would. A server that forks
// workers ends them itself, in its own order. It reports whether leader may signal the command.
func (c *Child) tell(s syscall.Signal) (may bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone || !errors.Is(syscall.Kill(c.pgid, s), syscall.EPERM)
}

// end tells the command to end. What it leaves behind gets TERM once it has ended, and KILL after
// rest.
func (c *Child) end(rest time.Duration) (may bool) {
	c.mu.Lock()
	c.told, c.rest = true, rest
	c.mu.Unlock()
	return c.tell(syscall.SIGTERM)
}

// dismiss has what is left of the command end, after the command, if that was told to end. It
// returns when nothing is left, its time is up, or the supervisor kills it.
func (c *Child) dismiss() {
	c.mu.Lock()
	told, rest := c.told, c.rest
	c.mu.Unlock()
	if told && rest > 0 {
		c.signalRest(syscall.SIGTERM)
		c.signalRest(syscall.SIGCONT)
		c.await(rest, c.hurried, func() []process.Process { return c.signalRest(0) })
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

// awaitKilled kills what is left of the command, which was reaped, and returns what does not go.
// Until it has gone it may still cause effects.
func (c *Child) awaitKilled() (left []process.Process) {
	return c.await(killPatience, nil, c.killRest)
}

// killRest kills what is left of the command, and returns what that was.
func (c *Child) killRest() (left []process.Process) {
	c.cgroup.kill()
	left = c.signalRest(syscall.SIGKILL)
	c.emptied = c.emptied || c.isEmpty(left)
	if len(left) == 0 {
		c.cgroup.close()
	}
	return left
}

// await returns when nothing is left, the time is up, or cut is closed.
func (c *Child) await(
	limit time.Duration, cut <-chan struct{}, rest func() []process.Process,
) (left []process.Process) {
	patience := time.NewTimer(limit)
	defer patience.Stop()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if left = rest(); len(left) == 0 {
			return nil
		}
		select {
		case <-patience.C:
			return left
		case <-cut:
			return left
		case <-time.After(wait):
		}
	}
}
