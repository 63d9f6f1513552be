package program

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childKey is set in the environment of child processes.
const childKey = "RINGFENCE_BENCH_CHILD"

// IsChild reports whether this process was started by StartChild.
func IsChild() bool { return os.Getenv(childKey) != "" }

// Child is a process that a benchmark starts. One of the benchmark's own program ends with its
// standard input.
type Child struct {
	Stdin io.WriteCloser
	Ended chan struct{} // closed when it has ended

	cmd *exec.Cmd
}

// ChildMain is what a child does. It writes its lines to out.
type ChildMain func(ctx context.Context, args []string, out io.Writer) error

// StartChild starts this program as a child of a benchmark, with these arguments. line is called
// with each line that it prints.
func StartChild(benchmark string, line func(string), args ...string) (*Child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{benchmark}, args...)...)
	cmd.Env = append(os.Environ(), childKey+"=1")
	return Start(cmd, line)
}

// Start starts a process. line is called with each line that it prints.
func Start(cmd *exec.Cmd, line func(string)) (c *Child, err error) {
	c = &Child{cmd: cmd, Ended: make(chan struct{})}
	c.cmd.Stderr = os.Stderr
	if c.Stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.Ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
		}
		_ = c.cmd.Wait()
	}()
	return c, nil
}

// PID returns the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Kill ends the child with KILL: its connections end without a goodbye.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.Ended
}

// MaxEnd is how long a child may take to end.
const MaxEnd = 20 * time.Second

// End lets the child end in order: by the end of its standard input, and by TERM.
func (c *Child) End() {
	_ = c.Stdin.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.Ended:
	case <-time.After(MaxEnd):
		c.Kill()
	}
}
