package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs/job"
)

// worker starts leader work in the stage's directory.
func (s *taskStage) worker() *leader {
	s.t.Helper()
	l := s.prepare("work", "nightly")
	l.cmd.Dir = s.dir
	l.begin()
	return l
}

// handIn hands a task in from another directory, which is gone then, and waits for the job's end.
func (s *taskStage) handIn(task string) *leader {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "t.yaml")
	must.Succeed(s.t, os.WriteFile(file, []byte(task), 0o600))
	l := s.start("submit", "nightly", "--wait", "--task", file)
	l.out.Await(s.t, "\n") // the ID
	must.Succeed(s.t, os.Remove(file))
	return l
}

// job returns the status of a job whose ID was printed.
func (s *taskStage) job(submitted *leader) (now job.Status) {
	s.t.Helper()
	id, _, _ := strings.Cut(submitted.out.String(), "\n")
	out, _ := s.call(cli.Done, "jobs", "nightly", "show", id, "-o", "json")
	if err := json.Unmarshal([]byte(out), &now); err != nil {
		s.t.Fatalf("%v in %q", err, out)
	}
	return now
}

// lines returns what steps have written to a file, or "" if it is not there.
func (s *taskStage) lines(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, name))
	return strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), "; ")
}

func (s *taskStage) eventually(name, text string) {
	s.t.Helper()
	leadertest.Eventually(s.t, text+" is in "+name, func() bool {
		return strings.Contains(s.lines(name), text)
	})
}

// taskJobGoesOn kills the worker of a task in the middle of a step.
func (s *taskStage) taskJobGoesOn() {
	s.t.Helper()
	first := s.worker()
	submitted := s.handIn(`task: noted
resource: noted
steps:
  - {name: one, run: 'echo "one $RINGFENCE_ATTEMPT" >>log'}
  - {name: wait, run: 'echo "waits $RINGFENCE_ATTEMPT" >>log; while [ ! -e go ]; do sleep 0.02; done'}
  - {name: two, run: 'echo "two $RINGFENCE_ATTEMPT" >>log; echo printed'}
`)
	s.eventually("log", "waits 1")
	first.kill()
	s.worker()
	s.eventually("log", "waits 2")
	s.write("go", "")
	submitted.exits(cli.Done)
	if got, want := s.lines("log"), "one 1; waits 1; waits 2; two 2"; got != want {
		s.t.Errorf("the steps were %q, want %q", got, want)
	}
	submitted.out.Await(s.t, "printed")
	if now := s.job(submitted); now.State != job.Done || now.Lost != 1 || now.Attempt != 2 {
		s.t.Errorf("the job is %+v", now)
	}
}

func testTaskJobInCoordinator(t *testing.T, program string) {
	inEveryCoordinator(t, program, (*taskStage).taskJobGoesOn)
}

// testPausedTaskJob pauses a worker, and the command of its step, until another worker has ended
// the task. The command wakes up first and writes. Without a guard the row is there twice, which
// shows what the guard does.
func testPausedTaskJob(t *testing.T, program string) {
	for what, c := range map[string]struct {
		guarded bool
		rows    string
	}{"a guard": {true, "second"}, "no guard": {false, "second first"}} {
		t.Run("with "+what, func(t *testing.T) {
			t.Parallel()
			s := newTaskStage(t, program, shortSession)
			direct := settings.Lookup(s.env, "LEADER_JOURNAL")
			if c.guarded {
				s.guarded()
			}
			s.set("LEADER_JOURNAL", direct)
			s.SQL("create table effect (n serial, what text)")
			s.Grant()
			s.set("NAME", "first")
			first := s.worker()
			submitted := s.handIn(`task: written
resource: written
steps:
  - name: write
    run: |
      echo "pid=$$" >"$NAME.pid"
      while [ ! -e "$NAME.go" ]; do sleep 0.02; done
      psql -v ON_ERROR_STOP=1 -c "insert into effect (what) values ('$NAME')" >"$NAME.log" 2>&1 || true
      echo ended >"$NAME.ended"
`)
			s.eventually("first.pid", "pid=")
			screen := leadertest.NewScreen()
			_, _ = screen.Write([]byte(s.lines("first.pid") + "\n"))
			command := screen.PID(t, "pid")
			first.signal(syscall.SIGSTOP)
			must.Succeed(t, syscall.Kill(-command, syscall.SIGSTOP))
			s.set("NAME", "second")
			s.worker()
			s.eventually("second.pid", "pid=")
			s.write("second.go", "")
			submitted.exits(cli.Done)
			before := s.job(submitted)

			s.write("first.go", "")
			must.Succeed(t, syscall.Kill(-command, syscall.SIGCONT))
			s.eventually("first.ended", "ended")
			if got := s.Query("select string_agg(what, ' ' order by n) from effect"); got != c.rows {
				t.Errorf("the rows are %q, want %q", got, c.rows)
			}
			if log := s.lines("first.log"); c.guarded != strings.Contains(log, "stale") {
				t.Errorf("the command that was paused was told %q", log)
			}
			first.signal(syscall.SIGCONT)
			first.log.Await(t, "waiting for jobs") // again: it is a member under another ID
			leadertest.Eventually(t, "it is a member again", func() bool {
				return strings.Count(first.log.String(), "waiting for jobs") == 2
			})
			if after := s.job(submitted); after.Token != before.Token || after.Attempt != 2 ||
				after.Lost != 1 {
				t.Errorf("the job was %+v, and is %+v", before, after)
			}
		})
	}
}
