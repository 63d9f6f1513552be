package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/carrier"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/cmd/leader/internal/taskfile"
	"github.com/ringfence/ringfence/cmd/leader/internal/tasks"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

func TestWrongUsageOfTaskExits2(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"task", "task [flags] FILE\n"},
		{"task a.yaml b.yaml", "received 2"},
		{"task show", "task show [flags] FILE|NAME\n"},
		{"task show a -o yaml", "table or json"},
		{"task a.yaml -o json", "-o"},
		{"task show .hidden", "not a task name"},
		{"task list all", `"all"`},
		{"task resume", "task resume [flags] FILE|NAME\n"},
		{"task restart a b", "received 2"},
	} {
		code, out, log := call(t, []string{"LEADER_COORDINATOR=zk://h"}, strings.Fields(c.args)...)
		if code != cli.Usage || out != "" || !strings.Contains(log, c.want) ||
			!strings.Contains(log, "leader task") {
			t.Errorf("leader %s: code %d, stdout %q, stderr %q", c.args, code, out, log)
		}
	}
}

// taskIn writes a task file.
func taskIn(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.yaml")
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestBadTaskFileExits2WithEveryProblem(t *testing.T) {
	env := []string{"LEADER_COORDINATOR=zk://h"}
	code, out, log := call(t, env, "task",
		filepath.Join("..", "..", "testdata", "tasks", "bad", "values.yaml"))
	if code != cli.Usage || out != "" || !strings.Contains(log, "values.yaml:3:9: rounds") ||
		!strings.Contains(log, "values.yaml:27:1: ") {
		t.Errorf("code %d, stdout %q, stderr %q", code, out, log)
	}
	for _, sub := range []string{"show", "resume", "restart"} {
		if code, _, log := call(t, env, "task", sub, "./nowhere"); code != cli.Usage ||
			!strings.Contains(log, "no such file") {
			t.Errorf("%s: code %d, stderr %q", sub, code, log)
		}
	}
}

func TestStepsThatNeedMissingSettingsExit2(t *testing.T) {
	file := taskIn(t, "task: t\nresource: r\nsteps:\n  - {name: book, sql: select 1}\n  - {name: "+
		"count, redis: [INCR, n]}\n")
	s := setup{journal: checkpointtest.NewMemory()}
	l := begin(t, s, "task", file)
	l.exits(cli.Usage)
	for _, want := range []string{
		`t.yaml:4:5: step "book" is SQL`, "LEADER_JOURNAL=postgres://",
		`t.yaml:5:5: step "count" is run by Redis`, "LEADER_REDIS=",
	} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
	unknown := taskIn(t, "task: t\nresource: r\njournal: nostore://h/db\nsteps: [{name: s, run: x}]\n")
	s.env = []string{"LEADER_JOURNAL="} // the setting would be used instead
	l = begin(t, s, "task", unknown)
	l.exits(cli.Usage)
	l.log.Await(t, "there is no journal nostore://")
}

func TestSettingsOfTasksAreChecked(t *testing.T) {
	code, _, log := call(t, []string{
		"LEADER_COORDINATOR=zk://h", "LEADER_JOURNAL=nostore://u:s3cr3t@h",
		"LEADER_REDIS=postgres://u:s3cr3t@h",
	}, "task", "list")
	if code != cli.Usage || strings.Contains(log, "s3cr3t") ||
		!strings.Contains(log, "LEADER_JOURNAL: there is no journal nostore://; there is postgres://, "+
			"postgresql://, redis://, redis+sentinel://, rediss://, rediss+sentinel://, and the word "+
			"coordinator") ||
		!strings.Contains(log, "LEADER_REDIS is a URL of scheme") {
		t.Errorf("code %d, stderr:\n%s", code, log)
	}
}

// kept returns a setup whose journal has two tasks.
func kept(t *testing.T) setup {
	t.Helper()
	j := checkpointtest.NewMemory()
	claim := fence.Claim{
		Resource: "orders", Token: 9007199254740993, Issuer: "memory", Holder: "host a:1",
	}
	saved := time.Date(2026, 11, 21, 6, 56, 41, 0, time.UTC)
	cp := checkpoint.Checkpoint{
		Task: "loop", Resource: "orders", Version: 1, Token: claim.Token, Holder: claim.Holder, Run: 1,
		Round: 12, Rounds: checkpoint.Forever,
		Step: 1, Steps: []string{"extract", "load"}, Status: checkpoint.Running,
		State: json.RawMessage(`{"cursor":7}`), Saved: saved,
	}
	stopped := cp
	stopped.Task, stopped.Round, stopped.Rounds, stopped.Run, stopped.Status = "once", 1, 1, 2,
		checkpoint.Stopped
	stopped.Failure = &checkpoint.Failure{
		Step: "load", Attempts: 3, Message: "exit code 1: \x1b[2Jno", At: saved,
	}
	err := j.Raise(t.Context(), claim)
	for _, cp := range []checkpoint.Checkpoint{cp, stopped} {
		if err == nil {
			err = j.Publish(t.Context(), claim, cp)
		}
	}
	must.Succeed(t, err)
	return setup{journal: j}
}

func TestShowPrintsOneTask(t *testing.T) {
	l := begin(t, kept(t), "task", "show", "once")
	l.exits(cli.Done)
	want := `task      once
resource  orders
status    stopped
step      2 of 2: load
round     1 of 1
run       2
version   1
token     9007199254740993
holder    "host a:1"
saved     2026-11-21T06:56:41Z
failure   step load, after 3 attempts, at 2026-11-21T06:56:41Z:
          "exit code 1: \x1b[2Jno"
`
	if l.out.String() != want {
		t.Errorf("got:\n%s", l.out)
	}
	l = begin(t, kept(t), "task", "show", "loop", "-o", "json")
	l.exits(cli.Done)
	var cp checkpoint.Checkpoint
	if err := json.Unmarshal([]byte(l.out.String()), &cp); err != nil ||
		cp.Token != 9007199254740993 || string(cp.State) != `{"cursor":7}` ||
		!strings.Contains(l.out.String(), `"token":"9007199254740993"`) {
		t.Errorf("%v in %s", err, l.out)
	}
	l = begin(t, kept(t), "task", "show", "never")
	l.exits(cli.Error)
	l.log.Await(t, "never begun")
}

func TestListPrintsAllTasks(t *testing.T) {
	l := begin(t, kept(t), "task", "list")
	l.exits(cli.Done)
	want := `TASK  RESOURCE  STATUS   STEP          ROUND        RUN  VERSION  TOKEN             HOLDER      SAVED
loop  orders    running  2 of 2: load  12, forever  1    1        9007199254740993  "host a:1"  2026-11-21T06:56:41Z
once  orders    stopped  2 of 2: load  1 of 1       2    1        9007199254740993  "host a:1"  2026-11-21T06:56:41Z
`
	if l.out.String() != want {
		t.Errorf("got:\n%s", l.out)
	}
	for s, want := range map[*checkpointtest.Memory]int{
		kept(t).journal: 2, checkpointtest.NewMemory(): 0,
	} {
		l := begin(t, setup{journal: s}, "task", "list", "-o", "json")
		l.exits(cli.Done)
		var all []checkpoint.Checkpoint
		if err := json.Unmarshal([]byte(l.out.String()), &all); err != nil || all == nil ||
			len(all) != want {
			t.Errorf("%v, %d tasks in %s", err, len(all), l.out)
		}
	}
}

func TestATaskStopsAndIsResumedAndRestarted(t *testing.T) {
	s := setup{
		memory: fencetest.NewMemory(longSession), journal: checkpointtest.NewMemory(),
		env: []string{"LEADER_HOLDER=me"},
	}
	file := taskIn(t, "task: t\nresource: orders\nsteps:\n  - {name: a, run: 'echo by "+
		"$RINGFENCE_HOLDER'}\n"+
		"  - {name: b, run: 'test -e fixed || { : >fixed; exit 7; }'}\n")
	call := func(want int, says string, args ...string) {
		t.Helper()
		l := begin(t, s, append([]string{"task"}, args...)...)
		l.exits(want)
		if said := l.out.String() + l.log.String(); !strings.Contains(said, says) {
			t.Errorf("%v: no %q in\n%s", args, says, said)
		}
	}
	call(cli.Error, "by me\n", file)
	call(cli.Done, "task t is running at step 2 of 2: b, run 1", "resume", "t")
	call(cli.Done, "the task is done", file)
	call(cli.Done, "task t is running at step 1 of 2: a, run 2", "restart", file)
}

// The grace of the settings applies to the task's command.
func TestASignalEndsATask(t *testing.T) {
	s := setup{journal: checkpointtest.NewMemory(), env: []string{"LEADER_GRACE=200ms"}}
	l := begin(t, s, "task",
		taskIn(t, "task: t\nresource: orders\nsteps: [{name: s, run: 'trap \"\" TERM; echo began; "+
			"while :; do sleep 0.02; done'}]\n"))
	l.out.Await(t, "began")
	l.signals <- syscall.SIGTERM
	l.exits(128 + 15)
	for _, want := range []string{
		`"task":"t"`, `"resource":"orders"`, `"holder":`, `"msg":"settings"`,
	} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
}

func TestEverySettingReachesTheTasks(t *testing.T) {
	env := []string{
		"LEADER_COORDINATOR=zk://h", "LEADER_STORES=postgres://a,rediss://b", "LEADER_JOURNAL=redis://c",
		"LEADER_REDIS=rediss://d",
		"LEADER_SESSION_TIMEOUT=12s", "LEADER_RAISE_TIMEOUT=7s", "LEADER_ON_DISCONNECT=stop",
		"LEADER_GRACE=3s", "LEADER_DRAIN_TIMEOUT=9s", "LEADER_HOLDER=me", "LEADER_EXPORT=DATABASE_URL",
	}
	p := &program{
		Streams: cli.Streams{Env: env}, electors: coordinators.All, stores: stores.All,
		journals: tasks.AllJournals,
	}
	c, err := p.settings(useStores, useCommands, useJournal, useWork)
	must.Succeed(t, err)
	claims, err := environ.Setting{"DATABASE_URL"}.Claims(c.Stores, carrier.Setting{}.Carries)
	must.Succeed(t, err)
	want := tasks.Settings{
		Coordinator: "zk://h", Stores: settings.URLs{"postgres://a", "rediss://b"},
		Journal:        taskfile.Journal{URL: "redis://c"},
		Redis:          "rediss://d",
		SessionTimeout: 12 * time.Second, RaiseTimeout: 7 * time.Second, OnDisconnect: supervise.StopNow,
		Grace: 3 * time.Second, Margin: 600 * time.Millisecond, DrainTimeout: 9 * time.Second,
		Holder: "me", Claims: claims,
	}
	if got := c.tasks(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestHelpOnTaskExplainsEveryKey(t *testing.T) {
	for _, args := range [][]string{
		{"task", "-h"}, {"task", "show", "-h"}, {"task", "resume", "--help"},
	} {
		code, out, log := call(t, nil, args...)
		if code != cli.Done || log != "" || !strings.Contains(out, "LEADER_JOURNAL") {
			t.Errorf("%v: code %d, stderr %q, stdout:\n%s", args, code, log, out)
		}
	}
	_, out, _ := call(t, nil, "task", "-h")
	for _, key := range []string{
		"task:", "resource:", "rounds:", "every:", "state:", "retry:", "changed:", "journal:", "steps:",
		"sql:", "sql_file:", "run:", "unfinished:", "ask:", "timeout:", "redis:", "RINGFENCE_KEY",
	} {
		if !strings.Contains(out, key) {
			t.Errorf("no %s in:\n%s", key, out)
		}
	}
}
