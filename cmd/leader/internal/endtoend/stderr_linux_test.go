package endtoend

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/agent"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// inTime bounds everything that these programs do while nothing reads their standard error.
const inTime = 90 * time.Second

// pipe returns a pipe as a program inherits it: its write end blocks.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	must.Succeed(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// fullPipe returns a pipe that is full, and that nothing reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	_, w := pipe(t)
	_, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	must.Succeed(t, err)
	fill(t, w)
	return w
}

// fill writes as much as the kernel takes.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd := int(w.Fd())
	must.Succeed(t, unix.SetNonblock(fd, true))
	for {
		if _, err := unix.Write(fd, []byte{'x'}); err == unix.EAGAIN {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, unix.SetNonblock(fd, false))
}

// stoppedTerminal returns a terminal that shows nothing more, as after Ctrl-S.
func stoppedTerminal(t *testing.T) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must.Succeed(t, err)
	t.Cleanup(func() { keyboard.Close() })
	must.Succeed(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	must.Succeed(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must.Succeed(t, err)
	t.Cleanup(func() { tty.Close() })
	fill(t, tty)
	return tty
}

// brokenPipe returns a pipe whose reader is gone.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	r, w := pipe(t)
	r.Close()
	return w
}

// unread runs a test with each standard error that nothing reads.
func unread(t *testing.T, test func(t *testing.T, s *stack, stderr *os.File)) {
	for name, of := range map[string]func(*testing.T) *os.File{
		"full": fullPipe, "broken": brokenPipe, "terminal": stoppedTerminal,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStackWith(t, "")
			ctx, cancel := context.WithTimeout(s.ctx, inTime)
			t.Cleanup(cancel)
			s.ctx = ctx
			test(t, s, of(t))
		})
	}
}

// process is a program with such a standard error.
type process struct {
	s     *stack
	cmd   *exec.Cmd
	ended chan struct{}
}

// begin starts a program. It is killed when the stack's time is over.
func (s *stack) begin(stderr *os.File, cmd *exec.Cmd) *process {
	s.t.Helper()
	p := &process{s, cmd, make(chan struct{})}
	cmd.Stderr = stderr
	must.Succeed(s.t, cmd.Start())
	go func() {
		defer close(p.ended)
		_ = cmd.Wait()
	}()
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); <-p.ended })
	return p
}

// exits waits for the end.
func (p *process) exits(want int) {
	p.s.t.Helper()
	<-p.ended
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.s.t.Fatalf("%s: %s, want exit code %d", p.cmd, p.cmd.ProcessState, want)
	}
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// eventually polls until the condition holds.
func (s *stack) eventually(what string, holds func() bool) {
	s.t.Helper()
	for !holds() {
		if s.ctx.Err() != nil {
			s.t.Fatalf("did not happen in time: %s", what)
		}
		time.Sleep(pollEvery)
	}
}

// appears waits for a file, and returns its text.
func (s *stack) appears(file string) (text string) {
	s.t.Helper()
	s.eventually(file, func() bool {
		b, err := os.ReadFile(file)
		text = strings.TrimSpace(string(b))
		return err == nil && text != ""
	})
	return text
}

// deposed has `leader resign` depose the leader of orders, also with nothing that reads its log.
func (s *stack) deposed(stderr *os.File) {
	s.t.Helper()
	resign := s.program("leader", "resign", "orders")
	resign.Stderr = stderr
	if out, err := resign.Output(); err != nil || !strings.Contains(string(out), "was deposed") {
		s.t.Fatalf("resign: %v: %s", err, out)
	}
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestAGuardWhoseLogNothingReadsAdmitsAndStops(t *testing.T) {
	t.Parallel()
	unread(t, func(t *testing.T, s *stack, stderr *os.File) {
		g := s.prepared(serverstest.FreeAddresses(t, 3))
		g.log = stderr
		g.start() // and is ready
		for _, leader := range []string{"first", "second"} {
			out, err := s.psql(g, "insert into ledger (token, note) values "+
				"(current_setting('fence.orders')::bigint, '"+leader+"')").CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v: %s", leader, err, out)
			}
		}
		g.ready()
		g.signal(syscall.SIGTERM)
		if err := g.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestAGuardTellsTheNextReaderHowManyLinesAreMissing(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	path := filepath.Join(t.TempDir(), "log")
	must.Succeed(t, unix.Mkfifo(path, 0o600))
	listen := func() *os.File {
		r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		must.Succeed(t, err)
		t.Cleanup(func() { r.Close() })
		return r
	}
	first := listen()
	log, err := os.OpenFile(path, os.O_WRONLY, 0)
	must.Succeed(t, err)
	defer log.Close()
	g := s.prepared(serverstest.FreeAddresses(t, 3))
	g.log = log
	g.start()
	first.Close()
	if out, err := s.psql(g, "select 1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.eventually("lines are counted as dropped", func() bool {
		answer, err := http.Get("http://" + g.page + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		_, count, found := strings.Cut(string(text), "\nringfence_log_lines_dropped_total ")
		return found && !strings.HasPrefix(count, "0\n")
	})
	lines := bufio.NewScanner(listen())
	g.signal(syscall.SIGTERM)
	must.Succeed(t, g.cmd.Wait())
	log.Close()
	// The lines from before the loss, which the first reader has left in the pipe, come first.
	for _, message := range []string{"lines of the log were dropped here", "stopped"} {
		found := false
		for !found && lines.Scan() {
			found = strings.Contains(lines.Text(), `"msg":"`+message)
		}
		if !found {
			t.Errorf("no line %q: %v", message, lines.Err())
		}
	}
}

func TestTheCommandOfADeposedLeaderEndsAlthoughNothingReadsTheLog(t *testing.T) {
	t.Parallel()
	unread(t, func(t *testing.T, s *stack, stderr *os.File) {
		file := filepath.Join(t.TempDir(), "pid")
		first := s.begin(stderr, s.program("leader", "run", "orders", "--",
			"sh", "-c", "echo $$ >"+file+"; exec sleep 600"))
		pid, err := strconv.Atoi(s.appears(file))
		must.Succeed(t, err)
		next := s.begin(stderr, s.program("leader", "run", "orders", "--",
			"sh", "-c", fmt.Sprintf("while kill -0 %d; do sleep 0.1; done 2>/dev/null", pid)))
		s.deposed(stderr)
		first.exits(cli.OwnOffset + cli.Lost)
		if !gone(pid) {
			t.Error("the command of the deposed leader still runs")
		}
		next.exits(cli.Done)
	})
}

// The command has leader's own standard error.
func TestACommandThatFillsTheLogIsStoppedWithItsTerm(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	ctx, cancel := context.WithTimeout(s.ctx, inTime)
	defer cancel()
	s.ctx = ctx
	r, stderr := pipe(t)
	file := filepath.Join(t.TempDir(), "pid")
	p := s.begin(stderr, s.program("leader", "run", "orders", "--",
		"sh", "-c", "echo $$ >"+file+"; exec cat /dev/zero >&2"))
	pid, err := strconv.Atoi(s.appears(file))
	must.Succeed(t, err)
	room, err := unix.FcntlInt(r.Fd(), unix.F_GETPIPE_SZ, 0)
	must.Succeed(t, err)
	s.eventually("the pipe is full", func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err == nil && n >= room-4096
	})
	s.depose()
	p.exits(cli.OwnOffset + cli.Lost)
	if !gone(pid) {
		t.Error("the command of the deposed leader still runs")
	}
}

func TestASignalEndsALeaderWhoseLogNothingReads(t *testing.T) {
	t.Parallel()
	const ended = 128 + int(syscall.SIGTERM)
	for name, args := range map[string][]string{
		"run":  {"run", "orders", "--", "sh", "-c", "echo lives >$FILE; exec sleep 600"},
		"task": {"task", "t.yaml"},
		"work": {"work", "group"},
	} {
		t.Run(name, func(t *testing.T) {
			unread(t, func(t *testing.T, s *stack, stderr *os.File) {
				dir := t.TempDir()
				file := filepath.Join(dir, "lives")
				// The step writes more than fits in a pipe.
				text := "task: t\nresource: orders\nsteps:\n  - {name: loud, run: '" +
					"head -c 300000 /dev/zero | tr \"\\0\" x >&2; echo lives >$FILE; sleep 600'}\n"
				must.Succeed(t, os.WriteFile(filepath.Join(dir, "t.yaml"), []byte(text), 0o600))
				cmd := s.program("leader", args...)
				cmd.Dir = dir
				cmd.Env = append(cmd.Env, "FILE="+file, "LEADER_DRAIN_TIMEOUT=0s", "LEADER_JOURNAL=coordinator")
				p := s.begin(stderr, cmd)
				if name == "work" {
					s.submit("echo lives >"+file+"; exec sleep 600", false)
				}
				s.appears(file)
				p.signal(syscall.SIGTERM)
				p.exits(ended)
			})
		})
	}
}

// submit submits a job.
func (s *stack) submit(script string, wait bool) (printed string) {
	s.t.Helper()
	cmd := s.program("leader", "submit", "--wait="+strconv.FormatBool(wait), "group", "--",
		"sh", "-c", script)
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("submit: %v: %s", err, out)
	}
	return string(out)
}

func TestAWorkerWhoseLogNothingReadsRunsJobs(t *testing.T) {
	t.Parallel()
	unread(t, func(t *testing.T, s *stack, stderr *os.File) {
		s.begin(stderr, s.program("leader", "work", "group"))
		for range 3 {
			out := s.submit("echo worked; head -c 300000 /dev/zero >&2", true)
			if !strings.Contains(out, "\nworked\n") {
				t.Errorf("the job printed %q", out)
			}
		}
	})
}

func TestACarrierWhoseLogNothingReadsCarries(t *testing.T) {
	t.Parallel()
	unread(t, func(t *testing.T, s *stack, stderr *os.File) {
		g := s.guard()
		s.begin(stderr, s.carries(g, `psql -X -q -c "insert into ledger (note) values ('carried')" `+
			`"$DATABASE_URL"`)).exits(cli.Done)
		if notes := s.column("select note from ledger"); len(notes) != 1 {
			t.Errorf("the ledger holds %q", notes)
		}
	})
}

func TestAnAgentWhoseLogNothingReadsHoldsTermsAndStops(t *testing.T) {
	t.Parallel()
	unread(t, func(t *testing.T, s *stack, stderr *os.File) {
		g := s.guard()
		a := s.agentInto(stderr, g, "LEADER_CARRY=postgres")
		one, two := s.stands(a.client, "one"), stream{}
		must.Succeed(t, s.writes(g, one.until(agent.Leading)))
		two = s.stands(a.client, "two")
		s.deposed(stderr)
		if e := one.until(agent.Lost); e.Cause != agent.Deposed {
			t.Errorf("%+v", e)
		}
		must.Succeed(t, s.writes(g, two.until(agent.Leading)))
		_ = a.cmd.Process.Signal(syscall.SIGTERM)
		if e := two.until(agent.Lost); e.Cause != agent.Stopped {
			t.Errorf("%+v", e)
		}
	})
}

func TestThePageOfJobsIsServedAlthoughNothingReadsTheLog(t *testing.T) {
	t.Parallel()
	unread(t, func(t *testing.T, s *stack, stderr *os.File) {
		at := serverstest.FreeAddresses(t, 1)[0]
		p := s.begin(stderr, s.program("leader", "serve", "--listen", at, "group"))
		s.eventually("it is ready", func() bool {
			answer, err := http.Get("http://" + at + "/readyz")
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
		p.signal(syscall.SIGTERM)
		p.exits(128 + int(syscall.SIGTERM))
	})
}

func TestASignalEndsAWatchWhoseOutputNothingReads(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	watch := s.program("leader", "watch", "orders")
	watch.Stdout = fullPipe(t)
	p := s.begin(fullPipe(t), watch)
	s.eventually("it writes", func() bool {
		wait, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", watch.Process.Pid))
		for _, file := range wait {
			if in, _ := os.ReadFile(file); strings.Contains(string(in), "pipe_write") {
				return true
			}
		}
		return false
	})
	p.signal(syscall.SIGTERM)
	p.exits(cli.Done)
}

func TestOutputWithoutAReaderIsAnErrorAndNoSignal(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	for _, of := range [][]string{
		{"leader", "status", "orders"}, {"leader", "watch", "orders"},
		{"leader", "jobs", "group", "workers", "-o", "json"}, {"leader", "-h"},
		{"guard", "status"}, {"guard", "install", "--print"}, {"guard", "install"},
	} {
		cmd := s.program(of[0], of[1:]...)
		cmd.Stdout = brokenPipe(t)
		var said strings.Builder
		cmd.Stderr = &said
		err := cmd.Run()
		told := of[1] == "-h" || strings.Contains(said.String(), "broken pipe")
		if cmd.ProcessState.ExitCode() != cli.Error || !told {
			t.Errorf("%q: %v: %s", of, err, said.String())
		}
	}
}

func TestTheCommandOfALeaderCanBeEndedByABrokenPipe(t *testing.T) {
	t.Parallel()
	s := newStackWith(t, "")
	out, err := s.program("leader", "run", "orders", "--",
		"grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status").Output()
	must.Succeed(t, err)
	masks := strings.Fields(string(out))
	if len(masks) != 4 {
		t.Fatalf("got %q", out)
	}
	for i := 1; i < 4; i += 2 {
		mask, err := strconv.ParseUint(masks[i], 16, 64)
		if err != nil || mask&(1<<(syscall.SIGPIPE-1)) != 0 {
			t.Errorf("%q: SIGPIPE does not end the command", out)
		}
	}
}
