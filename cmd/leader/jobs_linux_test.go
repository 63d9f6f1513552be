package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// taskJob is a task for jobs: it notes in the file log which steps begin, and waits in the middle
// until the file go exists.
type taskJob struct {
	t    *testing.T
	dir  string
	file string
	setup
}

func newTaskJob(t *testing.T) *taskJob {
	dir := t.TempDir()
	j := &taskJob{t: t, dir: dir, file: filepath.Join(dir, "t.yaml"), setup: setup{
		memory: fencetest.NewMemory(longSession), journal: checkpointtest.NewMemory(),
		env: []string{
			"LEADER_JOURNAL=mem://journal", "LEADER_GRACE=200ms", "LEADER_DRAIN_TIMEOUT=0s", "NOTES=" + dir,
		},
	}}
	j.write("t.yaml", `task: noted-${DATE}
resource: noted
steps:
  - {name: one, run: 'echo "one $RINGFENCE_ATTEMPT" >>"$NOTES/log"; echo printed'}
  - name: wait
    run: 'echo waits >>"$NOTES/log"; while [ ! -e "$NOTES/go" ]; do sleep 0.02; done'
  - {name: two, run: 'echo "two $RINGFENCE_ATTEMPT $RINGFENCE_RESOURCE" >>"$NOTES/log"'}
`)
	return j
}

func (j *taskJob) write(name, text string) {
	j.t.Helper()
	must.Succeed(j.t, os.WriteFile(filepath.Join(j.dir, name), []byte(text), 0o600))
}

func (j *taskJob) notes() string {
	text, _ := os.ReadFile(filepath.Join(j.dir, "log"))
	return strings.ReplaceAll(string(text), "\n", "; ")
}

// waits waits until the step in the middle has begun so often.
func (j *taskJob) waits(times int) {
	j.t.Helper()
	leadertest.Eventually(j.t, fmt.Sprintf("the step waits for the %d. time", times), func() bool {
		return strings.Count(j.notes(), "waits") == times
	})
}

func TestATaskAsAJobGoesOnAtItsCheckpoint(t *testing.T) {
	for what, end := range map[string]func(*leaderRun){
		"stops":   func(l *leaderRun) { l.signals <- syscall.SIGTERM },
		"is gone": func(l *leaderRun) { l.client.Cut(); l.client.Expire() },
	} {
		t.Run("the worker "+what, func(t *testing.T) {
			j := newTaskJob(t)
			first := begin(t, j.setup, "work", "group")
			dated := j.setup
			dated.env = append(dated.env, "DATE=2026-11-23")
			submitted := begin(t, dated, "submit", "--wait", "group", "--task", j.file)
			j.waits(1)
			if err := os.Remove(j.file); err != nil { // the job has it
				t.Fatal(err)
			}
			end(first)
			defer first.client.Heal()
			begin(t, j.setup, "work", "group")
			j.waits(2)
			j.write("go", "")
			submitted.exits(cli.Done)
			if got, want := j.notes(), "one 1; waits; waits; two 2 noted; "; got != want {
				t.Errorf("the steps were %q, want %q", got, want)
			}
			if all, err := j.journal.Load(t.Context(), "noted-2026-11-23"); err != nil || len(all) != 1 ||
				all[0].Status != checkpoint.Done {
				t.Errorf("the checkpoint is %+v, %v", all, err)
			}
		})
	}
}

func TestAStoppedTaskFailsItsJobForGood(t *testing.T) {
	j := newTaskJob(t)
	j.write("t.yaml", "task: bad\nresource: bad\nsteps:\n  - {name: one, run: 'echo said; exit 3', "+
		"retry: {attempts: 1}}\n")
	begin(t, j.setup, "work", "group")
	submitted := begin(t, j.setup, "submit", "--wait", "--retries", "5", "group", "--task", j.file)
	submitted.exits(runError)
	submitted.log.Await(t, "failed: ")
	submitted.out.Await(t, "said")
	if strings.Contains(submitted.log.String(), "attempt 2") {
		t.Error("it was tried again")
	}
	id, _, _ := strings.Cut(submitted.out.String(), "\n")
	logs := begin(t, j.setup, "jobs", "group", "logs", id)
	logs.exits(cli.Done)
	if got := logs.out.String(); got != "said\n" {
		t.Errorf("the task has written %q", got)
	}
}

func TestATaskIsCheckedWhenItIsSubmitted(t *testing.T) {
	j := newTaskJob(t)
	for _, c := range []struct{ text, says string }{
		{"task: t\n", "t.yaml:1:1: "},
		{"task: t\nresource: r\nsteps: [{name: one, sql_file: none.sql}]\n", "none.sql"},
	} {
		j.write("t.yaml", c.text)
		l := begin(t, j.setup, "submit", "group", "--task", j.file)
		l.exits(runUsage)
		l.log.Await(t, c.says)
	}
	j.write("t.yaml", "task: t\nresource: r\nsteps: [{name: one, run: x}]\n")
	j.write("forever.yaml", "task: t\nresource: r\nrounds: forever\nsteps: [{name: one, run: x}]\n")
	forever := filepath.Join(j.dir, "forever.yaml")
	for says, args := range map[string][]string{
		"--task takes no command":        {"submit", "--task", j.file, "group", "--", "ls"},
		"the resource of the task is r":  {"submit", "--task", j.file, "--resource", "other", "group"},
		"remove rounds and every":        {"submit", "--task", forever, "--every", "1h", "group"},
		"nowhere.yaml: no such file":     {"submit", "--task", "nowhere.yaml", "group"},
		"--task takes no command, --std": {"submit", "--task", j.file, "--stdin", "{}", "group"},
	} {
		l := begin(t, j.setup, args...)
		l.exits(runUsage)
		l.log.Await(t, says)
	}
}

func TestJobsAreShownAndChanged(t *testing.T) {
	s := setup{
		memory: fencetest.NewMemory(longSession),
		env:    []string{"LEADER_GRACE=200ms", "LEADER_DRAIN_TIMEOUT=0s"},
	}
	says := func(code int, text string, args ...string) string {
		t.Helper()
		l := begin(t, s, args...)
		l.exits(code)
		if out := l.out.String() + l.log.String(); !strings.Contains(out, text) {
			t.Errorf("leader %v says %q, want %q", args, out, text)
		}
		return strings.TrimSpace(l.out.String())
	}
	says(cli.Done, "the group nightly has no jobs", "jobs", "nightly")
	says(cli.Done, "the group nightly has no workers", "jobs", "nightly", "workers")
	says(cli.Done, "[]", "jobs", "nightly", "workers", "-o", "json")
	says(cli.Usage, "received 3", "jobs", "nightly", "workers", "x")
	says(cli.Usage, "leader jobs nightly lists all", "jobs", "nightly", "show", "x")
	const nobody = "00000000000000000000000000"
	says(cli.Error, "or it was forgotten after its end", "jobs", "nightly", "cancel", nobody)
	id := says(cli.Done, "", "submit", "nightly", "--", "sh", "-c", "echo pid=$$ >&2; echo begun; "+
		"exec sleep 1000")
	says(cli.Done, "there is no worker", "jobs", "nightly")
	says(cli.Done, "sh -c 'echo pid=$$", "jobs", "nightly")
	says(cli.Done, id, "jobs", "nightly", "--kind", "command", "--text", "BEGUN")
	says(cli.Done, "the group nightly has no such job", "jobs", "nightly", "--text", "ended")
	says(cli.Done, "the group nightly has no such job", "jobs", "nightly", "--kind", "task")

	waiting := begin(t, s, "submit", "nightly", "--wait", "--label", "gpu", "--", "true")
	waiting.log.Await(t, "waiting: there is no worker")
	waiting.signals <- syscall.SIGINT
	waiting.exits(128 + 2)
	waiting.log.Await(t, "the job goes on")
	says(cli.Done, "cancelled", "jobs", "nightly", "cancel", strings.TrimSpace(waiting.out.String()))

	says(cli.Done, id, "jobs", "nightly", "--state", "waiting")
	says(cli.Done, "no job of the group nightly is running", "jobs", "nightly", "--state", "running")
	says(cli.Usage, "it takes waiting, assigned", "jobs", "nightly", "--state", "gone")
	begin(t, s, "work", "nightly", "--label", "eu")
	leadertest.Eventually(t, "the job runs", func() bool {
		return strings.Contains(says(cli.Done, "sh -c", "jobs", "nightly"), "running")
	})
	says(cli.Done, "1 of 4", "jobs", "nightly", "workers")
	leadertest.Eventually(t, "what it has written so far is shown", func() bool {
		return strings.Contains(says(cli.Done, "", "jobs", "nightly", "logs", id), "begun")
	})
	says(cli.Error, "is running", "jobs", "nightly", "retry", id)
	says(cli.Done, "it is told to end", "jobs", "nightly", "cancel", id)
	leadertest.Eventually(t, "the job is cancelled", func() bool {
		return strings.Contains(says(cli.Done, "", "jobs", "nightly", "show", id, "-o", "json"),
			`"state":"cancelled"`)
	})
	says(cli.Done, "ATTEMPT  ROUND  WORKER", "jobs", "nightly", "show", id)
	if out := says(cli.Done, "", "jobs", "nightly", "retry", id); !strings.HasPrefix(out, "waiting") &&
		!strings.HasPrefix(out, "assigned") && !strings.HasPrefix(out, "running") {
		t.Errorf("a job that is tried again is %q", out)
	}
	says(cli.Done, "", "jobs", "nightly", "cancel", id)

	late := begin(t, s, "submit", "nightly", "--wait", "--timeout", "100ms", "--", "sleep", "1000")
	late.exits(128 + 15)
	late.log.Await(t, "failed: the job has run for too long: ")
	zeros := "head -c 20000 /dev/zero; head -c 20000 /dev/zero >&2; echo the end"
	begin(t, s, "submit", "nightly", "--wait", "--", "sh", "-c", zeros).exits(cli.Done)
	missing := begin(t, s, "submit", "nightly", "--wait", "--", "/no/such/program")
	missing.exits(runError)
	missing.log.Await(t, "failed: find the command: ")
}

// A flag with an empty value, such as that of a variable that is not set, never means the default.
func TestAnEmptyValueIsRefused(t *testing.T) {
	s := setup{memory: fencetest.NewMemory(longSession)}
	var flags []string
	(&program{}).submitCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "wait" && f.Name != "output" {
			flags = append(flags, f.Name)
		}
	})
	for _, flag := range flags {
		for _, empty := range []string{"", " "} {
			l := begin(t, s, "submit", "nightly", "--"+flag+"="+empty, "--", "true")
			l.exits(runUsage)
			l.log.Await(t, `"--`+flag+`" flag: it is empty`)
		}
	}
	for says, args := range map[string][]string{
		`"--wait" flag: it is empty`:       {"submit", "nightly", "--wait=", "--", "true"},
		"one of the labels is empty":       {"submit", "nightly", "--label", "a,,b", "--", "true"},
		"the command is empty":             {"submit", "nightly", "--", ""},
		"the time zone is empty":           {"submit", "nightly", "--every", "TZ= 0 3 * * *", "--", "x"},
		`hour "24" (0 to 23)`:              {"submit", "nightly", "--every", "0 24 * * *", "--", "true"},
		`"--state" flag: it is empty`:      {"jobs", "nightly", "--state", ""},
		`"--text" flag: it is empty`:       {"jobs", "nightly", "--text", ""},
		`"--label" flag: it is empty`:      {"work", "nightly", "--label", ""},
		`"--strategy" flag: it is empty`:   {"work", "nightly", "--strategy="},
		`"-o, --output" flag: it is empty`: {"jobs", "nightly", "-o", ""},
		`not a group's name: ""`:           {"submit", "", "--", "true"},
	} {
		l := begin(t, s, args...)
		l.exits(own(args[0], cli.Usage))
		l.log.Await(t, says)
	}
}

func TestSubmitAndShowSayWhatChangesOfClocksDo(t *testing.T) {
	s := setup{memory: fencetest.NewMemory(longSession)}
	for every, says := range map[string][]string{
		"CRON_TZ=Europe/Berlin 30 2 * * *": {
			" 02:30:00 CE", "from 02:00 to 03:00: the round of 02:30 runs at 03:00",
			"from 03:00 to 02:00: the round of 02:30 runs once, the first time",
		},
		"CRON_TZ=America/New_York 0 */2 * * *": {"America/New_York go from 02:00 to 03:00: the round " +
			"of 02:00 runs not at all"},
		"CRON_TZ=Australia/Lord_Howe 45 1 * * *": {
			"go from 02:00 to 01:30: the round of 01:45 runs once",
		},
		"30 2 * * *": {" 02:30:00 UTC"},
	} {
		l := begin(t, s, "submit", "nightly", "--every", every, "--", "true")
		l.exits(cli.Done)
		id := strings.TrimSpace(l.out.String())
		show := begin(t, s, "jobs", "nightly", "show", id)
		show.exits(cli.Done)
		for _, text := range says {
			if !strings.Contains(l.log.String(), text) || !strings.Contains(show.out.String(), text) {
				t.Errorf("%s: submit says %q, show %q, want %q", every, l.log.String(), show.out.String(), text)
			}
		}
		if quiet := len(says) == 1 && !strings.Contains(every, "TZ"); quiet &&
			strings.Contains(show.out.String(), "clocks") {
			t.Errorf("%s: %s", every, show.out.String())
		}
	}
}

func TestAWorkerThatStopsLetsItsCommandsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		drain, again bool
		says         string
	}{
		"within its time":             {drain: true, says: "done"},
		"not after it":                {says: "waiting"},
		"not after the second signal": {drain: true, again: true, says: "waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := setup{
				memory: fencetest.NewMemory(longSession), env: []string{"LEADER_GRACE=200ms", "DIR=" + dir},
			}
			drain := "LEADER_DRAIN_TIMEOUT=0s"
			if c.drain {
				drain = "LEADER_DRAIN_TIMEOUT=1h"
			}
			working := s
			working.env = append(working.env, drain)
			worker := begin(t, working, "work", "group")
			submitted := begin(t, s, "submit", "group", "--", "sh", "-c",
				`echo >"$DIR/begun"; while [ ! -e "$DIR/go" ]; do sleep 0.02; done; echo written`)
			submitted.exits(cli.Done)
			id := strings.TrimSpace(submitted.out.String())
			there := func(name string) bool {
				_, err := os.Stat(filepath.Join(dir, name))
				return err == nil
			}
			leadertest.Eventually(t, "the command has begun", func() bool { return there("begun") })
			worker.signals <- syscall.SIGTERM
			if c.drain {
				worker.log.Await(t, "the worker stops; it waits for its jobs")
			}
			switch {
			case c.again:
				worker.signals <- syscall.SIGINT
			case c.drain:
				must.Succeed(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
			}
			worker.exits(128 + 15)
			shown := begin(t, s, "jobs", "group", "show", id, "-o", "json")
			shown.exits(cli.Done)
			if got := shown.out.String(); !strings.Contains(got, `"state":"`+c.says+`"`) ||
				(c.says == "waiting") != strings.Contains(got, `"outcome":"returned"`) {
				t.Errorf("after the worker's end the job is %s", got)
			}
		})
	}
}

// Each round is a new run of the task. A worker that takes a round over begins no other one, and a
// run that is not done goes on.
func TestATaskThatRepeatsBeginsANewRunInEachRound(t *testing.T) {
	j := newTaskJob(t)
	j.write("t.yaml", `task: nightly
resource: noted
steps:
  - {name: one, run: 'echo "one $RINGFENCE_ATTEMPT" >>"$NOTES/log"'}
  - name: wait
    run: 'echo waits >>"$NOTES/log"; while [ ! -e "$NOTES/go" ]; do sleep 0.02; done; rm "$NOTES/go"'
`)
	first := begin(t, j.setup, "work", "group")
	submitted := begin(t, j.setup, "submit", "group", "--every", "1s", "--task", j.file)
	submitted.exits(cli.Done)
	j.waits(1)
	j.write("go", "")
	j.waits(2)
	first.signals <- syscall.SIGTERM // in the middle of the second round
	first.exits(128 + 15)
	begin(t, j.setup, "work", "group")
	j.waits(3)
	j.write("go", "")
	j.waits(4)
	if got, want := j.notes(), "one 1; waits; one 2; waits; waits; one 4; waits; "; got != want {
		t.Errorf("the steps were %q, want %q", got, want)
	}
	if all, err := j.journal.Load(t.Context(), "nightly"); err != nil || len(all) != 1 ||
		all[0].Run != 3 {
		t.Errorf("the checkpoint is %+v, %v", all, err)
	}
	cancelled := begin(t, j.setup, "jobs", "group", "cancel",
		strings.TrimSpace(submitted.out.String()))
	cancelled.exits(cli.Done)
}
