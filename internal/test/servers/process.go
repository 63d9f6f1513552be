package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit = 60 * time.Second // for a start whose context has no earlier deadline
	killLimit  = 20 * time.Second // for the kernel to end killed processes
	pollEvery  = 10 * time.Millisecond

	// stopLimit is for an orderly stop, before the server is killed. A checkpoint takes long on a slow
	// disk.
	stopLimit = 60 * time.Second

	// freezeLimit is for the processes to stop before they are killed. The children of one that still
	// forks are missed.
	freezeLimit = 5 * time.Second
)

// ErrClosed is returned by Start, Pause and Resume after Close.
var ErrClosed = errors.New("server is closed")

// ErrRunning is returned by Start when the server is running.
var ErrRunning = errors.New("server is already running")

// ErrNotRunning is returned by Pause and Resume when the server is not running.
var ErrNotRunning = errors.New("server is not running")

// Process is one server: a program, its children and its directory. Its methods may be called from
// several goroutines. A Kill or Stop during a Start makes that Start fail.
type Process struct {
	spec spec

	mu      sync.Mutex
	cur     *running // the latest run, ended or not; nil before the first
	closed  bool
	lastLog string // kept by Close, which removes the file

	closing  sync.Once
	closeErr error
}

// spec says how to run a server. The functions are called for every start.
type spec struct {
	name    string
	dir     string // owned by the Process; Close removes it
	account *account
	command func() []string             // program and arguments
	ready   func(context.Context) error // nil when the server answers
	stop    syscall.Signal              // for an orderly stop
	quit    syscall.Signal              // for a fast stop, when the data is not needed any more
	tidy    func()                      // after the last exit, before dir is removed; may be nil
	apart   func() int                  // a process that is a child no more, or 0; may be nil
	env     func() []string             // more environment variables; may be nil

	// Of a Program only.
	log    string                   // instead of the file in dir
	stdout func() (*os.File, error) // instead of the log
	stderr func() (*os.File, error) // instead of the log
	exited func(*os.ProcessState)   // called after each exit
}

// Start starts the server again on the same port with the same data, and returns when it answers.
// It returns [ErrRunning], [ErrClosed], or an error that contains the end of the server's log; the
// server is then not running.
func (p *Process) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if r := p.live(); r != nil {
		r.settle()
	}
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.spec.name, err)
	}
	if err := p.await(ctx, r); err != nil {
		err = p.explain(r, err)
		return errors.Join(err, r.kill())
	}
	return nil
}

// Kill sends SIGKILL to every process of the server and waits until all are gone. It is no error if
// the server does not run.
func (p *Process) Kill() error {
	r := p.live()
	if r == nil {
		return nil
	}
	if err := r.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.spec.name, err)
	}
	return nil
}

// Stop stops the server in an orderly way (Postgres: a fast shutdown; PgBouncer has none) and
// waits. It resumes a paused server first. It kills a server that does not end in time, and returns
// an error. It is no error if the server does not run.
func (p *Process) Stop() error { return p.end(p.spec.stop, stopLimit) }

// Pause stops every process of the server with SIGSTOP and returns when the kernel reports all of
// them stopped. Connections stay open and unanswered.
func (p *Process) Pause() error {
	r, err := p.mustLive()
	if err == nil {
		err = r.pause()
	}
	if err != nil {
		return fmt.Errorf("pause %s: %w", p.spec.name, err)
	}
	return nil
}

// Resume lets a paused server continue. It does nothing if the server is not paused.
func (p *Process) Resume() error {
	r, err := p.mustLive()
	if err != nil {
		return fmt.Errorf("resume %s: %w", p.spec.name, err)
	}
	r.thaw()
	return nil
}

// Close ends the server, paused or not, and removes its directory. It may be called more than once;
// later calls wait for the first and return its error.
func (p *Process) Close() error {
	p.closing.Do(p.close)
	return p.closeErr
}

func (p *Process) close() {
	p.mu.Lock()
	p.closed = true // from now on launch fails
	p.mu.Unlock()
	err := p.end(p.spec.quit, stopLimit)
	p.mu.Lock()
	p.lastLog = tail(p.logFile(), 0, keepLines)
	p.mu.Unlock()
	if p.spec.tidy != nil {
		p.spec.tidy()
	}
	p.closeErr = errors.Join(err, removeDir(p.spec.dir))
}

// PID returns the process id of the server's first process, or 0 if it does not run.
func (p *Process) PID() int {
	if r := p.live(); r != nil {
		return r.pid
	}
	return 0
}

// Dir returns the directory of the server's data and log; Close removes it.
func (p *Process) Dir() string { return p.spec.dir }

// LogTail returns the last n lines of the server's log, also after Close.
func (p *Process) LogTail(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastLog != "" {
		return lastLines(p.lastLog, n)
	}
	return tail(p.logFile(), 0, n)
}

func (p *Process) logFile() string {
	if p.spec.log != "" {
		return p.spec.log
	}
	return filepath.Join(p.spec.dir, "server.log")
}

// end sends sig, and kills the server if it has not ended within the limit.
func (p *Process) end(sig syscall.Signal, limit time.Duration) error {
	r := p.live()
	if r == nil {
		return nil
	}
	r.thaw() // a stopped process takes no signal but SIGKILL
	r.signal(sig)
	if r.wait(limit) {
		return nil
	}
	err := fmt.Errorf("%s did not end within %v of %v and was killed%s",
		p.spec.name, limit, sig, quoteLog(p.LogTail(tailLines)))
	return errors.Join(err, r.kill())
}

// live returns the current run, or nil if the server does not run.
func (p *Process) live() *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil || p.cur.ended() {
		return nil
	}
	return p.cur
}

func (p *Process) mustLive() (*running, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.cur == nil || p.cur.ended():
		return nil, ErrNotRunning
	}
	return p.cur, nil
}
