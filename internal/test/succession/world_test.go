package succession

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) {
	if e := jobFromEnvironment(); e != nil {
		os.Exit(e.run())
	}
	os.Exit(serverstest.RunMain(m))
}

// journals are the journals that the tests run on: how a child opens one, and how a test prepares
// it.
var journals map[string]struct {
	open  func(ctx context.Context, e job) (*opened, error)
	world func(t *testing.T) *world
}

// world is the environment of one run, from the view of the test.
type world struct {
	t          *testing.T
	kind       string
	url, raise string
	journal    checkpoint.Journal
	token      fence.Token

	depose      func(pid int) error // ends a process's candidacy; nil: no election
	unfence     func()              // removes the check of the fence
	exactlyOnce func() []string     // effects of synchronous steps, in order; nil: no such steps
	outside     func() []string     // effects of asynchronous steps, in order
}

// leaderTimeout is more than any leader needs: jobTimeout, and the time to close its connections.
const leaderTimeout = jobTimeout + 30*time.Second

// leader is a child process.
type leader struct {
	w      *world
	cmd    *exec.Cmd
	token  fence.Token
	said   *bufio.Reader
	resume func()
	log    *strings.Builder
	waited bool
	code   int
}

// start starts the next leader.
func (w *world) start(e *ending, wait bool) *leader {
	w.t.Helper()
	w.token++
	text, err := json.Marshal(job{
		Journal: w.kind, URL: w.url, Raise: w.raise, Token: 1<<60 + w.token, Wait: wait, Ending: e,
	})
	must.Succeed(w.t, err)
	self, err := os.Executable()
	must.Succeed(w.t, err)
	l := &leader{w: w, token: 1<<60 + w.token, log: &strings.Builder{}}
	l.cmd = exec.CommandContext(w.t.Context(), self)
	l.cmd.Env = append(os.Environ(), "RINGFENCE_JOB="+string(text), "GOTRACEBACK=all")
	l.cmd.Stderr = l.log
	in, err := l.cmd.StdinPipe()
	must.Succeed(w.t, err)
	out, err := l.cmd.StdoutPipe()
	must.Succeed(w.t, err)
	l.said, l.resume = bufio.NewReader(out), func() { _, _ = in.Write([]byte("\n")) }
	must.Succeed(w.t, l.cmd.Start())
	stuck := time.AfterFunc(leaderTimeout, func() { // it prints its goroutines and exits
		_ = l.cmd.Process.Signal(syscall.SIGQUIT)
		_ = l.cmd.Process.Signal(syscall.SIGCONT)
	})
	w.t.Cleanup(func() { stuck.Stop(); _ = l.cmd.Process.Kill(); l.wait() })
	return l
}

// succeed starts the leader after one that has been killed or stopped. It deposes the old leader
// instead of waiting for its session to expire, so sessions can be long enough for a busy machine.
func (w *world) succeed(old *leader, e *ending, wait bool) *leader {
	w.t.Helper()
	if w.depose != nil {
		must.Succeed(w.t, w.depose(old.cmd.Process.Pid))
	}
	return w.start(e, wait)
}

// took waits until the leader has the checkpoint, and returns its version.
func (l *leader) took() (version int64) {
	l.w.t.Helper()
	line, err := l.said.ReadString('\n')
	if err != nil {
		l.w.t.Fatalf("leader %s: %v; it ended with %d: %s", l.token, err, l.wait(), l.log)
	}
	if _, err := fmt.Sscanf(line, "took %d", &version); err != nil {
		l.w.t.Fatalf("leader %s said %q", l.token, line)
	}
	return version
}

// stopped waits until the leader is stopped. It reports false if the leader has finished instead.
func (l *leader) stopped() bool {
	l.w.t.Helper()
	line, err := l.said.ReadString('\n')
	if err != nil {
		return false
	}
	if !strings.HasPrefix(line, "stopping") {
		l.w.t.Fatalf("leader %s said %q", l.token, line)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if halted(l.cmd.Process.Pid) {
			return true
		}
		if time.Now().After(deadline) {
			l.w.t.Fatalf("leader %s did not stop", l.token)
		}
	}
}

// halted reports whether every thread of a process is stopped.
func halted(pid int) bool {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err == nil && !strings.Contains(string(text), ") T ") {
			return false
		}
	}
	return true
}

func (l *leader) wake() { _ = l.cmd.Process.Signal(syscall.SIGCONT) }

// wait returns the exit code, or -1 after a signal.
func (l *leader) wait() int {
	if !l.waited {
		l.waited = true
		_ = l.cmd.Wait()
		l.code = l.cmd.ProcessState.ExitCode()
	}
	return l.code
}

// stored returns the present checkpoint.
func (w *world) stored() checkpoint.Checkpoint {
	w.t.Helper()
	found, err := w.journal.Load(w.t.Context(), taskName)
	must.Succeed(w.t, err)
	if len(found) == 0 {
		return checkpoint.Checkpoint{Task: taskName}
	}
	return found[0]
}
