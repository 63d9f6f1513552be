package check_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// Histories of real runs, and what has to be said of them for ever.
var kept = map[string]struct {
	verdict check.Verdict
	by      string // the invariant that is violated first
}{
	"leader-paused.jsonl":           {check.Valid, ""},
	"leader-paused-unguarded.jsonl": {check.Invalid, "I1"},
	// The worker, and the journal with it, believed pgx that a COMMIT whose answer was lost had not been sent.
	"commit-answer-lost.jsonl": {check.Invalid, "I3"},
}

const histories = "../../testdata/histories"

func TestKeptHistoriesAreJudgedAsTheyWere(t *testing.T) {
	files, err := os.ReadDir(histories)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want, ok := kept[f.Name()]
		if !ok {
			t.Errorf("%s is kept, and nobody says what it proves", f.Name())
		}
		in, err := os.Open(filepath.Join(histories, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		events, err := history.Read(in)
		_ = in.Close()
		if err != nil {
			t.Fatal(err)
		}
		r := check.Check(t.Context(), events)
		if r.Verdict != want.verdict {
			t.Errorf("%s is %s, and was %s: %v %v", f.Name(), r.Verdict, want.verdict, r.Problems, r.Doubts)
		}
		if want.by != "" && (len(r.Problems) == 0 || r.Problems[0].Invariant != want.by) {
			t.Errorf("%s: %v, and was a violation of %s", f.Name(), r.Problems, want.by)
		}
	}
	if len(files) < len(kept) {
		t.Errorf("%d histories are kept, of %d", len(files), len(kept))
	}
}
