package docs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the models list at their tops is what make model checks, so the page cannot name another
// mutation.
func TestTheTableOfMutationsIsThatOfTheModels(t *testing.T) {
	cmd := exec.Command("scripts/model.sh", "--table")
	cmd.Dir = root
	table, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(string(table), "\n"); rows < 40 {
		t.Errorf("%d rows of mutations, there are to be 40 at least", rows)
	}
	if !strings.Contains(read(t, filepath.Join(root, "docs/proof.md")), "\n\n"+string(table)+"\n") {
		t.Error("docs/proof.md has another table of mutations than: scripts/model.sh --table")
	}
}
