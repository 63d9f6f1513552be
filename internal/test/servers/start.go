package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// errPortTaken marks a start that failed because another process has the port; startOnFreePorts
// then tries others.
var errPortTaken = errors.New("port is taken")

// errExited is the cause when the program ended before it answered.
var errExited = errors.New("it exited")

// launch starts the program, and does not wait until it answers.
func (p *Process) launch() (*running, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if p.cur != nil && !p.cur.ended() {
		return nil, ErrRunning
	}
	r, err := p.spawn(p.spec.command())
	if err != nil {
		return nil, err
	}
	p.cur = r
	return r, nil
}

// spawn starts a program with its output in the log.
func (p *Process) spawn(argv []string) (*running, error) {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	at, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd := p.cmd(argv)
	cmd.Stdout, cmd.Stderr = log, log
	if p.spec.stdout != nil {
		out, err := p.spec.stdout()
		if err != nil {
			return nil, err
		}
		defer out.Close()
		cmd.Stdout = out
	}
	if p.spec.stderr != nil {
		errs, err := p.spec.stderr()
		if err != nil {
			return nil, err
		}
		defer errs.Close()
		cmd.Stderr = errs
	}
	r := &running{
		reaped: make(chan struct{}), done: make(chan struct{}), logFrom: at, exited: p.spec.exited,
		apart: p.spec.apart,
	}
	started := make(chan error)
	go r.supervise(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// run runs a helper program such as initdb to its end. Its error contains the program's output.
func (p *Process) run(ctx context.Context, argv ...string) error {
	r, err := p.spawn(argv)
	if err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: %w", argv[0], context.Cause(ctx)), r.kill())
	}
	if !r.state.Success() {
		return fmt.Errorf("%s: %v%s", argv[0], r.state, quoteLog(tail(p.logFile(), r.logFrom, tailLines)))
	}
	return nil
}

// cmd returns a command that runs under the server's account, in its directory, and in its own
// process group, since Ctrl-C in the terminal is for the test and not for the server. Of the
// caller's environment it gets only PATH: PGOPTIONS or JAVA_TOOL_OPTIONS must not change the
// results of a test.
func (p *Process) cmd(argv []string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = p.spec.dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.spec.dir, "LC_ALL=C", "TZ=UTC"}
	if p.spec.env != nil {
		c.Env = append(c.Env, p.spec.env()...)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.spec.account.credential()}
	dieWithParent(c.SysProcAttr)
	return c
}

// await returns when the server answers. It returns errExited if the program ends first,
// errPortTaken, or the context's error with the last error of ready.
func (p *Process) await(ctx context.Context, r *running) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var last error
	for {
		last = p.spec.ready(ctx)
		switch {
		case r.ended(): // even if it answered: that was another server
			return fmt.Errorf("%w: %v", errExited, r.state)
		case last == nil || errors.Is(last, errPortTaken):
			return last
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), last)
		case <-poll.C:
		}
	}
}

// explain adds the log of this run to err, and errPortTaken if the log reports that.
func (p *Process) explain(r *running, err error) error {
	log := tail(p.logFile(), r.logFrom, tailLines)
	if saysPortTaken(log) && !errors.Is(err, errPortTaken) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return fmt.Errorf("start %s: %w%s", p.spec.name, err, quoteLog(log))
}

func saysPortTaken(log string) bool {
	return strings.Contains(log, "Address already in use")
}
