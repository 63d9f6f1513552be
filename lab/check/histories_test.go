package check_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// recorded has histories of real runs and their verdicts, which must not change.
var recorded = map[string]struct {
	verdict check.Verdict
	by      string // the first invariant that is violated
}{
	"leader-paused.jsonl":           {check.Valid, ""},
	"leader-paused-unguarded.jsonl": {check.Invalid, "I1"},
	"steps-recorded.jsonl":          {check.Valid, ""}, // leader-paused, with the steps of the fence
	// The worker and the journal believed pgx that a COMMIT whose answer was lost was never sent.
	"commit-answer-lost.jsonl": {check.Invalid, "I3"},
}

const histories = "../../testdata/histories"

func TestRecordedHistoriesKeepTheirVerdicts(t *testing.T) {
	files, err := os.ReadDir(histories)
	must.Succeed(t, err)
	for _, f := range files {
		want, ok := recorded[f.Name()]
		if !ok {
			t.Errorf("%s has no verdict in this test", f.Name())
		}
		r := check.Check(t.Context(), readRecorded(t, f.Name()))
		if r.Verdict != want.verdict {
			t.Errorf("%s is %s, want %s: %v %v",
				f.Name(), r.Verdict, want.verdict, r.Problems, r.Doubts)
		}
		if want.by != "" && (len(r.Problems) == 0 || r.Problems[0].Invariant != want.by) {
			t.Errorf("%s: %v, want a violation of %s first", f.Name(), r.Problems, want.by)
		}
	}
	if len(files) < len(recorded) {
		t.Errorf("there are %d histories, want %d", len(files), len(recorded))
	}
}

func readRecorded(t *testing.T, name string) []history.Event {
	t.Helper()
	in, err := os.Open(filepath.Join(histories, name))
	must.Succeed(t, err)
	defer in.Close()
	events, err := history.Read(in)
	must.Succeed(t, err)
	return events
}
