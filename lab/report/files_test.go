package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must.Succeed(t, os.WriteFile(file, got, 0o644))
	}
	wanted, err := os.ReadFile(file)
	must.Succeed(t, err)
	if !bytes.Equal(got, wanted) {
		t.Errorf("%s differs (go test ./report -update rewrites it); got:\n%s", file, got)
	}
}

// results returns one of each verdict, one without a guard and one without a header.
func results() []check.Result {
	bad, _, _ := invalid()
	open := newRun("leader-paused", "")
	open.result.Header.Guarded, open.result.Header.Coordinator = false, "etcd"
	open.result.Header.Started = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	open.result.Verdict = check.Invalid
	open.result.Figures = check.Figures{
		Writes: 12345, Acknowledged: 12340, Changes: 2, StaleAttempts: 17, StaleAccepted: 17,
		TakeOvers: []history.Duration{history.Duration(1400 * time.Millisecond)},
	}
	none := check.Result{Verdict: check.Unknown, Doubts: []string{"the history is empty"}}
	return []check.Result{valid().result, bad.result, open.result, none}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	report.Table(&out, results())
	golden(t, "table.txt", out.Bytes())
}

func TestSummary(t *testing.T) {
	var out bytes.Buffer
	for _, r := range results() {
		report.Summary(&out, r)
	}
	long := check.Result{Verdict: check.Invalid, Problems: make([]check.Problem, 7)}
	for i := range long.Problems {
		long.Problems[i] = check.Problem{
			Invariant: "I3", Text: "a write that was acknowledged is missing",
		}
	}
	report.Summary(&out, long)
	golden(t, "summary.txt", out.Bytes())
}

func TestIndex(t *testing.T) {
	dir := t.TempDir()
	for i, r := range results() {
		run := filepath.Join(dir, "2026", string(rune('a'+i)))
		must.Succeed(t, os.MkdirAll(run, 0o755))
		must.Succeed(t, report.Save(run, nil, r))
	}
	broken := filepath.Join(dir, "broken")
	must.Succeed(t, os.Mkdir(broken, 0o755))
	broken = filepath.Join(broken, report.ResultsFile)
	must.Succeed(t, os.WriteFile(broken, []byte(`{"verdict":`), 0o644))
	must.Succeed(t, report.Index(dir))
	page, err := os.ReadFile(filepath.Join(dir, report.IndexFile))
	must.Succeed(t, err)
	_, body, _ := bytes.Cut(page, []byte("</style>"))
	golden(t, "index.html", body)
}

func TestIndexOfNothing(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, report.Index(dir))
	page, err := os.ReadFile(filepath.Join(dir, report.IndexFile))
	if err != nil || !strings.Contains(string(page), "No run was found here") {
		t.Errorf("an index of nothing does not say so: %v", err)
	}
	if err := report.Index(filepath.Join(dir, "missing")); err == nil {
		t.Error("Index of a missing directory returns no error")
	}
}

func TestResultsRoundTrip(t *testing.T) {
	r, _, _ := invalid()
	file := filepath.Join(filepath.Dir(save(t, r.events, r.result)), report.ResultsFile)
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	if !bytes.Contains(text, []byte("\n  \"verdict\"")) && !bytes.HasPrefix(text, []byte("{\n  ")) {
		t.Error("results.json is not indented")
	}
	var back check.Result
	must.Succeed(t, json.Unmarshal(text, &back))
	if !reflect.DeepEqual(back, r.result) {
		t.Errorf("results.json holds\n%+v, want\n%+v", back, r.result)
	}
}

func TestThePageLinksToTheFilesBesideIt(t *testing.T) {
	dir := t.TempDir()
	links := func() (found []string) {
		t.Helper()
		must.Succeed(t, report.Save(dir, nil, check.Result{Verdict: check.Unknown}))
		page, err := os.ReadFile(filepath.Join(dir, report.PageFile))
		must.Succeed(t, err)
		for _, name := range []string{report.HistoryFile, report.ResultsFile, report.ModelFile} {
			if bytes.Contains(page, []byte(`href="`+name+`"`)) {
				found = append(found, name)
			}
		}
		return found
	}
	if got := links(); !reflect.DeepEqual(got, []string{report.ResultsFile}) {
		t.Errorf("without other files the page links %q", got)
	}
	for _, name := range []string{report.HistoryFile, report.ModelFile} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	if got := links(); len(got) != 3 {
		t.Errorf("the page links %q, want all three", got)
	}
}

func TestSaveNamesTheFileThatItCannotWrite(t *testing.T) {
	err := report.Save(filepath.Join(t.TempDir(), "missing"), nil, check.Result{})
	if err == nil || !strings.Contains(err.Error(), report.ResultsFile) {
		t.Errorf("Save into a missing directory returns %v, want the name of the file", err)
	}
}
