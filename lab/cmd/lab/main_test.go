package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestMistakesAreReportedBeforeAnythingIsBuilt(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"", "lab run NAME"},
		{"nonsense", "no such command"},
		{"run", "name scenarios"},
		{"run nonsense", "lab list shows them"},
		{"run leader-paused --control nonsense", "observe-only"},
		{"run --compare leader-paused --unguarded", "--compare"},
		{"run leader-paused --injector cloud", "local and containers"},
		{"run leader-paused --coordinator nosuch", "zk, etcd, postgres"},
		{"run coordinator-leader-killed --coordinator postgres", "Postgres is one server"},
		{"run leader-paused --time soon", "soon"},
		{"run leader-paused --session 1m", "from 600ms to 15s"},
		{"run leader-paused --tls --injector containers", "--injector local only"},
		{"run leader-paused --tls --write README.md", "not with --write"},
		{"run leader-paused --path lua", "there are sql, carrier, direct and agent"},
		{"run leader-paused --path sql --tls", "does not go with --tls"},
		{"run guard-paused --path sql", "it needs a guard"},
		{"run task-leader-paused --path carrier", "its workers lead by themselves"},
		{"run paused-inside-transaction --path agent", "its faults are inside a worker"},
		{"run all --path agent --write README.md", "no table"},
		{"run agent-killed", "only be run with --path agent"},
		{"run sql-pooler-killed", "only be run with --path sql"},
		{"run all --path sql --injector containers nonsense", "lab list shows them"},
		{"controls nonsense", "observe-only"},
		{"check", "one history file"},
		{"check /nowhere/history.jsonl", "no such file"},
		{"list leader-paused", "no names"},
	} {
		code, out, errs := invoke(t, strings.Fields(c.args)...)
		if text := out + errs; !strings.Contains(text, c.says) {
			t.Errorf("lab %s says %q", c.args, text)
		}
		if want := exitUnknown; c.args != "" && code != want {
			t.Errorf("lab %s: exit code %d", c.args, code)
		}
	}
}

func TestListShowsEveryScenarioAndControl(t *testing.T) {
	code, out, _ := invoke(t, "list")
	for _, s := range scenario.Catalogue {
		if !strings.Contains(out, s.Name) {
			t.Errorf("%s is not listed", s.Name)
		}
	}
	for _, c := range scenario.Controls {
		if !strings.Contains(out, string(c.Name)) {
			t.Errorf("control %s is not listed", c.Name)
		}
	}
	var all []scenario.Scenario
	jsonCode, text, _ := invoke(t, "list", "-o", "json")
	err := json.Unmarshal([]byte(text), &all)
	if err != nil || len(all) != len(scenario.Catalogue) || code+jsonCode != exitValid {
		t.Errorf("%d of %d, %v, exit codes %d and %d",
			len(all), len(scenario.Catalogue), err, code, jsonCode)
	}
}

const histories = "../../../testdata/histories"

func TestCheckExitsWithTheVerdict(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	must.Succeed(t, os.WriteFile(empty, nil, 0o600))
	for file, want := range map[string]int{
		histories + "/leader-paused.jsonl":           exitValid,
		histories + "/leader-paused-unguarded.jsonl": exitInvalid,
		empty: exitUnknown,
	} {
		code, out, errs := invoke(t, "check", file, "-o", "json")
		var r check.Result
		err := json.Unmarshal([]byte(out), &r)
		if err != nil || code != want || r.Verdict.ExitCode() != want {
			t.Errorf("%s: exit code %d, %s, %v, %s", file, code, r.Verdict, err, errs)
		}
	}
}

func TestReportIsWrittenBesideTheHistory(t *testing.T) {
	text, err := os.ReadFile(histories + "/leader-paused-unguarded.jsonl")
	must.Succeed(t, err)
	dir := filepath.Join(t.TempDir(), "run")
	file := filepath.Join(dir, lab.HistoryFile)
	must.Succeed(t, os.Mkdir(dir, 0o700))
	must.Succeed(t, os.WriteFile(file, text, 0o600))
	code, out, errs := invoke(t, "report", file)
	if code != exitInvalid || !strings.Contains(out, "report.html") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	for _, name := range []string{"report.html", "results.json", "model.html", "../index.html"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestAControlIsCaughtOnlyByWhatShouldCatchIt(t *testing.T) {
	c := scenario.Control{By: []string{"I1"}}
	for by, want := range map[string]bool{"I1": true, "I6": false} {
		r := check.Result{
			Verdict: check.Invalid, Problems: []check.Problem{{Invariant: by}},
			Doubts: []string{"some"},
		}
		if got := catch(c, r); got.ok != want {
			t.Errorf("caught by %s: %v", by, got.ok)
		}
	}
	if catch(c, check.Result{Verdict: check.Valid}).ok {
		t.Error("a valid run has caught something")
	}
	doubtful := check.Result{Verdict: check.Unknown, Doubts: []string{"empty"}}
	if !catch(scenario.Control{By: []string{"doubt"}}, doubtful).ok {
		t.Error("a run that does not count did not catch a bug that a doubt catches")
	}
}

func TestTheTableIsReplacedBetweenItsMarks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	before := "before\n<!-- controls -->\nold\n| a bug | `memory-mark` | kept |\n<!-- /controls " +
		"-->\nafter\n"
	must.Succeed(t, os.WriteFile(file, []byte(before), 0o600))
	all := []caught{{Control: scenario.Controls[0], by: []string{"I1"}}}
	must.Succeed(t, updateTable(file, all))
	text, _ := os.ReadFile(file)
	got := string(text)
	if !strings.HasPrefix(got, "before\n") ||
		!strings.HasSuffix(got, "<!-- /controls -->\nafter\n") ||
		strings.Contains(got, "old") || !strings.Contains(got, "`observe-only`") ||
		!strings.Contains(got, "\n| a bug | `memory-mark` | kept |\n") {
		t.Errorf("%s", got)
	}
	if err := updateTable("main.go", nil); err == nil {
		t.Error("a file without marks was rewritten")
	}
}

func TestResultsReplaceOnlyTheRowsOfTheirScenarios(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	const etcd = "<!-- results etcd -->\n| leader-paused | in etcd |\n<!-- /results etcd -->\n"
	before := "<!-- results zk -->\n| scenario | head |\n|---|---|\n| leader-paused | old |\n" +
		"| no-such-scenario | old |\n| random-mix | kept |\n<!-- /results zk -->\n" + etcd
	must.Succeed(t, os.WriteFile(file, []byte(before), 0o600))
	result := func(accepted int) []check.Result {
		return []check.Result{{
			Verdict: check.Valid, Header: &history.Header{Scenario: "leader-paused"},
			Figures: check.Figures{Acknowledged: 321, StaleAccepted: accepted},
		}}
	}
	err := updateResults(file, scenario.InZooKeeper, result(0), result(155))
	must.Succeed(t, err)
	text, _ := os.ReadFile(file)
	want := "<!-- results zk -->\n" + resultsHead +
		"| leader-paused | valid | 0 | 321 | 0 | 0 | 0 | - | 155 |\n| random-mix | kept |\n" +
		"<!-- /results zk -->\n" + etcd
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	if err := updateResults(file, scenario.InPostgres, result(0), nil); err == nil {
		t.Error("a file without the coordinator's marks was rewritten")
	}
}

func TestResultsOfJobsHaveATableForAllCoordinators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	before := "<!-- results jobs -->\n| job-worker-killed | ZooKeeper | old |\n" +
		"| job-worker-killed | etcd | kept |\n<!-- /results jobs -->\n"
	must.Succeed(t, os.WriteFile(file, []byte(before), 0o600))
	with := []check.Result{{
		Verdict: check.Valid, Header: &history.Header{Scenario: "job-worker-killed"},
		Figures: check.Figures{StaleAttempts: 9, Jobs: &check.JobFigures{
			Done: 98, Assignments: 106, TakenBack: 7, Late: 3,
		}},
	}}
	without := []check.Result{{Figures: check.Figures{StaleAccepted: 155}}}
	must.Succeed(t, updateResults(file, scenario.InZooKeeper, with, without))
	text, _ := os.ReadFile(file)
	want := "<!-- results jobs -->\n" + jobsHead +
		"| job-worker-killed | ZooKeeper | valid | 98 | 106 | 7 | 9 | 0 | 3 | 0 | - | 155 |\n" +
		"| job-worker-killed | etcd | kept |\n<!-- /results jobs -->\n"
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}

func TestAPublishedRunHasWhatItTakesToJudgeIt(t *testing.T) {
	recorded, err := os.ReadFile("../../../testdata/histories/steps-recorded.jsonl")
	must.Succeed(t, err)
	run, to := filepath.Join(t.TempDir(), "a-run"), t.TempDir()
	must.Succeed(t, os.Mkdir(run, 0o755))
	for name, content := range map[string][]byte{
		lab.HistoryFile: recorded, "guard-1.log": []byte("a log"),
	} {
		must.Succeed(t, os.WriteFile(filepath.Join(run, name), content, 0o644))
	}
	must.Succeed(t, publish(t.Context(), to, run))
	index, err := os.ReadFile(filepath.Join(to, "index.html"))
	for _, link := range []string{"a-run/report.html", `"history.md"`, `"check.py"`} {
		if !strings.Contains(string(index), link) {
			t.Errorf("the list has no link to %s: %v", link, err)
		}
	}
	if code, out, errs := invoke(t, "check",
		filepath.Join(to, "a-run", lab.HistoryFile)); code != exitValid {
		t.Errorf("exit code %d of a published history: %s%s", code, out, errs)
	}
	files, err := os.ReadDir(filepath.Join(to, "a-run"))
	if err != nil || len(files) != 3 { // history, page, results
		t.Errorf("%d files, %v", len(files), err)
	}
}
