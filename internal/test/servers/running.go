package servers

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// running is one run of a server, from its start to its exit.
type running struct {
	pid     int
	logFrom int64         // where this run's log begins in the file
	reaped  chan struct{} // closed when the program has exited, before exited is called
	done    chan struct{} // closed after exited has returned
	state   *os.ProcessState
	exited  func(*os.ProcessState) // may be nil
	apart   func() int             // may be nil

	mu  sync.Mutex
	dog *watchdog // while paused
}

// supervise starts the command, reports the result, and returns when the command has exited. It
// keeps its OS thread all that time, because the kernel delivers the parent death signal when the
// starting thread ends, not when the process does.
func (r *running) supervise(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	r.pid = cmd.Process.Pid
	started <- nil
	_ = cmd.Wait() // the state has the result
	r.state = cmd.ProcessState
	close(r.reaped)
	if r.exited != nil {
		r.exited(r.state)
	}
	close(r.done)
}

// settle waits for exited if the program has exited, so that its caller can start the program again
// from there.
func (r *running) settle() {
	select {
	case <-r.reaped:
		<-r.done
	default:
	}
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// wait reports whether the program exited within the limit.
func (r *running) wait(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-r.done:
		return true
	case <-t.C:
		return false
	}
}

func (r *running) signal(sig syscall.Signal) {
	if !r.ended() {
		_ = syscall.Kill(r.pid, sig) // ESRCH: it has just ended
	}
}

// kill ends the program with all its descendants and waits until they are gone. Postgres backends
// each call setsid, so a signal to the process group would miss them, and a postmaster that is not
// stopped first could fork another one.
func (r *running) kill() error {
	defer r.release()
	all, _ := r.freeze(freezeLimit) // best effort: a process in I/O stops late, but SIGKILL ends it
	for _, m := range all {
		_ = syscall.Kill(m.pid, syscall.SIGKILL)
	}
	r.signal(syscall.SIGKILL)
	if !r.wait(killLimit) {
		return errors.New("killed processes did not end")
	}
	deadline := time.Now().Add(killLimit)
	for _, m := range all {
		for m.exists() {
			if time.Now().After(deadline) {
				return errors.New("killed processes did not end")
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// freeze stops the whole family and returns its members. A process may fork until it is stopped, so
// freeze lists the family until two lists in a row show only stopped processes. When the second
// list began, no process could fork.
func (r *running) freeze(limit time.Duration) ([]member, error) {
	deadline := time.Now().Add(limit)
	for settled := 0; ; {
		all := r.family()
		still := true
		for _, m := range all {
			if !m.stopped() {
				still = false
				_ = syscall.Kill(m.pid, syscall.SIGSTOP)
			}
		}
		if settled++; !still {
			settled = 0
		}
		if settled == 2 {
			return all, nil
		}
		if time.Now().After(deadline) {
			return all, errors.New("processes did not stop in time")
		}
		if !still {
			time.Sleep(time.Millisecond)
		}
	}
}

// pause freezes the family, and starts a watchdog so that its members do not stay stopped for ever
// if the caller is killed before it resumes them.
func (r *running) pause() error {
	all, err := r.freeze(killLimit)
	if err != nil {
		return err
	}
	dog, err := watch(all)
	if err != nil {
		r.thaw()
		return err
	}
	r.release()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dog = dog
	return nil
}

func (r *running) thaw() {
	r.release()
	for _, m := range r.family() {
		_ = syscall.Kill(m.pid, syscall.SIGCONT)
	}
}

// release ends the watchdog, if there is one.
func (r *running) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dog != nil {
		r.dog.release()
		r.dog = nil
	}
}

// family lists the program and all its descendants, parents first. It is empty once the program has
// exited.
func (r *running) family() []member {
	if r.ended() {
		return nil
	}
	children := map[int][]member{}
	var all []member
	apart := 0
	if r.apart != nil {
		apart = r.apart()
	}
	for _, m := range processes() {
		if m.pid == r.pid || m.pid == apart {
			all = append(all, m)
		}
		children[m.parent] = append(children[m.parent], m)
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all
}
