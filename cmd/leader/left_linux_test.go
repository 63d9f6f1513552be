package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/otheruser"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/jobs/job"
)

// operator is a user that leader runs as; the user of what it starts here is another one.
const operator = otheruser.Nobody

// changesUser installs a program with which the operator starts one as another user, as sudo is,
// and has leader run as the operator.
func (s *site) changesUser() (changes string) {
	s.t.Helper()
	if os.Getuid() != 0 {
		s.t.Skip("needs root")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		s.t.Skip(err)
	}
	folder := anybodys(s.t)
	for from, mode := range map[string]os.FileMode{setpriv: 0o755 | os.ModeSetuid, s.program: 0o755} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, filepath.Base(from)), b, 0o755)
		}
		if err == nil {
			err = os.Chmod(filepath.Join(folder, filepath.Base(from)), mode)
		}
		must.Succeed(s.t, err)
	}
	s.program = filepath.Join(folder, filepath.Base(s.program))
	s.as = []string{"setpriv", fmt.Sprintf("--reuid=%d", operator),
		fmt.Sprintf("--regid=%d", operator), "--clear-groups"}
	return fmt.Sprintf("%s/setpriv --reuid=%d --clear-groups", folder, otheruser.Daemon)
}

// anybodys makes a folder in which every user may write.
func anybodys(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "ringfence-test-")
	if err == nil {
		err = os.Chmod(folder, 0o777)
	}
	must.Succeed(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// changed waits in a shell until the last process has changed its user.
var changed = fmt.Sprintf(`until [ "$(stat -c %%u /proc/$!)" = %d ]; do sleep 0.02; done; `,
	otheruser.Daemon)

// leftOf returns the process that the command has started as another user, and ends it after the
// test.
func (l *leader) leftOf() int {
	l.t.Helper()
	pid := l.pid("left")
	leadertest.Eventually(l.t, "it has changed its user", func() bool {
		about, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return err == nil && about.Sys().(*syscall.Stat_t).Uid == otheruser.Daemon
	})
	l.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// A term goes on until nothing of the command is left, and leader says what that is.
func testLeft(t *testing.T, program string) {
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	changes := s.changesUser()
	l := s.start("run", "orders", "--", "/bin/sh", "-c", changes+" sleep 1000 & echo left=$!; "+
		changed+"exit 6")
	pid := l.leftOf()
	l.log.Await(t, "processes of the command were killed and are still there")
	l.log.Await(t, fmt.Sprintf("%d (sleep, user %d)", pid, otheruser.Daemon))
	if now := s.electionStatus(); now.Leader == nil {
		t.Error("the term ended before them")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	l.log.Await(t, "nothing is left of the command")
	l.exits(6)
}

// The command itself has another user, as with sudo. leader does not wait for it after the loss.
func testCommandOfAnotherUser(t *testing.T, program string) {
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	changes := s.changesUser()
	begin := func() (*leader, int) {
		l := s.start("run", "orders", "--", "/bin/sh", "-c", "echo left=$$; exec "+changes+" sleep 1000")
		return l, l.leftOf()
	}
	l, pid := begin()
	s.start("resign", "orders").exits(cli.Done)
	l.log.Await(t, "does not get leader's signals")
	l.exits(runLost)
	if !strings.Contains(l.log.String(),
		fmt.Sprintf(`"left":"%d (sleep, user %d)"`, pid, otheruser.Daemon)) || !leadertest.Alive(pid) {
		t.Error("leader does not say that the command goes on")
	}
	l, pid = begin()
	l.signal(syscall.SIGTERM)
	l.log.Await(t, "does not get leader's signals")
	l.signal(syscall.SIGTERM)
	l.exits(128 + 9)
	if !leadertest.Alive(pid) {
		t.Error("it is gone: the test shows nothing")
	}

	group := delegated(t)
	s.as = append([]string{"sh", "-c", `echo $$ > ` + group + `/cgroup.procs; exec "$@"`, "sh"},
		s.as...)
	l, pid = begin()
	s.start("resign", "orders").exits(cli.Done)
	l.exits(runLost)
	leadertest.MustBeGone(t, pid)
}

// Who is told to stop does not wait for ever.
func testLeftAtAStop(t *testing.T, program string) {
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	changes := s.changesUser()
	l := s.start("run", "orders", "--", "/bin/sh", "-c", changes+" sleep 1000 & echo left=$!; wait")
	pid := l.leftOf()
	l.signal(syscall.SIGTERM)
	l.log.Await(t, fmt.Sprintf(`"left":"%d (sleep, user %d)"`, pid, otheruser.Daemon))
	l.exits(128 + 15)
	if !leadertest.Alive(pid) {
		t.Error("it is gone: the test shows nothing")
	}
}

// A job whose processes are there has not ended: it is neither tried again nor cancelled beside
// them.
func testJobLeft(t *testing.T, program string) {
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	changes := s.changesUser()
	worker := s.start("work", "group")
	for name, end := range map[string]string{
		"failed": changed + "exit 1", "cancelled": changed + "wait",
	} {
		dir := anybodys(t)
		out := s.output("submit", "--retries", "1", "group", "--", "/bin/sh", "-c",
			changes+" sleep 1000 & echo $! >> "+dir+"/left; "+end)
		id := strings.TrimSpace(out)
		var pid int
		leadertest.Eventually(t, "it runs", func() bool {
			b, _ := os.ReadFile(dir + "/left")
			_, err := fmt.Sscan(string(b), &pid)
			return err == nil
		})
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		if name == "cancelled" {
			s.output("jobs", "group", "cancel", id)
		}
		worker.log.Await(t, fmt.Sprintf("%d (sleep, user %d)", pid, otheruser.Daemon))
		if state := s.state(id); state != job.Running {
			t.Errorf("%s: while its process is there, it is %s", name, state)
		}
		if _, shown := s.outputs("jobs", "group", "logs", id); !strings.Contains(shown, fmt.Sprint(pid)) {
			t.Errorf("%s: its log does not name the process:\n%s", name, shown)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		leadertest.Eventually(t, "the job has ended, or is tried again", func() bool {
			b, _ := os.ReadFile(dir + "/left")
			if name == "failed" {
				return strings.Count(string(b), "\n") == 2
			}
			return s.state(id) == job.Cancelled
		})
		if name == "failed" {
			s.output("jobs", "group", "cancel", id)
			b, _ := os.ReadFile(dir + "/left")
			for line := range strings.FieldsSeq(string(b)) {
				_, _ = fmt.Sscan(line, &pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// In a control group of its own, leader ends what has another user.
func testControlGroup(t *testing.T, program string) {
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	changes := s.changesUser()
	group := delegated(t)
	s.as = append([]string{"sh", "-c", `echo $$ > ` + group + `/cgroup.procs; exec "$@"`, "sh"},
		s.as...)
	l := s.start("run", "orders", "--", "/bin/sh", "-c", "setsid "+changes+" sleep 1000 & echo "+
		"left=$!; wait")
	pid := l.leftOf()
	s.start("resign", "orders").exits(cli.Done)
	l.exits(runLost)
	leadertest.MustBeGone(t, pid)
	if strings.Contains(l.log.String(), "still there") {
		t.Error("leader says that something is left")
	}
}

// delegated makes a control group that the operator may divide, as systemd does for Delegate=yes.
func delegated(t *testing.T) string {
	t.Helper()
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.Contains(line, " - cgroup2 ") {
			group, err := os.MkdirTemp(f[4], "test-")
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { _ = os.Remove(group) })
			for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
				must.Succeed(t, os.Chown(filepath.Join(group, name), operator, operator))
			}
			return group
		}
	}
	t.Skip("this machine has no control groups of version 2")
	return ""
}

// Two commands run, and each has left a process in a session of its own: the end of one ends its
// own only.
func testOrphans(t *testing.T, program string) {
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	s.changesUser() // so that leader may make no control group
	s.start("work", "group")
	dir := anybodys(t)
	run := func(name string) (id string, pid int) {
		out := s.output("submit", "group", "--", "/bin/sh", "-c",
			"setsid sleep 1000 & echo $! > "+dir+"/"+name+"; while [ ! -e "+dir+"/end-"+name+" ]; do "+
				"sleep 0.02; done")
		leadertest.Eventually(t, name+" runs", func() bool {
			b, _ := os.ReadFile(dir + "/" + name)
			_, err := fmt.Sscan(string(b), &pid)
			return err == nil
		})
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		return strings.TrimSpace(out), pid
	}
	first, ofFirst := run("first")
	second, ofSecond := run("second")
	for _, c := range []struct {
		name, id    string
		pid, others int
	}{{"first", first, ofFirst, ofSecond}, {"second", second, ofSecond, 0}} {
		must.Succeed(t, os.WriteFile(dir+"/end-"+c.name, nil, 0o644))
		leadertest.Eventually(t, c.name+" has ended", func() bool {
			return s.state(c.id) == job.Done
		})
		leadertest.MustBeGone(t, c.pid)
		if c.others != 0 && !leadertest.Alive(c.others) {
			t.Error("a process of another command was ended")
		}
	}
}

// state returns the state of a job of the group.
func (s *site) state(id string) job.State {
	s.t.Helper()
	var shown job.Status
	if err := json.Unmarshal([]byte(s.output("jobs", "group", "show", id, "-o", "json")),
		&shown); err != nil {
		s.t.Fatal(err)
	}
	return shown.State
}

func (s *site) output(args ...string) string {
	s.t.Helper()
	stdout, _ := s.outputs(args...)
	return stdout
}

// outputs runs leader, which has to succeed.
func (s *site) outputs(args ...string) (stdout, said string) {
	s.t.Helper()
	cmd := exec.Command(s.program, args...)
	var stderr strings.Builder
	cmd.Env, cmd.Stderr = s.env, &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v: %v: %s", args, err, &stderr)
	}
	return string(out), stderr.String()
}
