package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// Names of the files of a run.
const (
	PageFile    = "report.html"
	ResultsFile = "results.json"
	HistoryFile = lab.HistoryFile
	ModelFile   = "model.html" // porcupine's page, if there is one
	IndexFile   = "index.html"
	FormatFile  = "history.md" // beside the index, if the runs were published
	CheckerFile = "check.py"   // the same
)

// Save writes report.html and results.json into dir, which must exist. The page links to the files
// beside it. If a directory beside dir has a run that differs in the guard alone, both pages show
// both.
func Save(dir string, events []history.Event, r check.Result) error {
	results, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("report: results: %w", err)
	}
	file := filepath.Join(dir, ResultsFile)
	if err := os.WriteFile(file, append(results, '\n'), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	links, err := present(dir, HistoryFile, ResultsFile, ModelFile)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := render(&page, events, r, links); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, PageFile), page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return pair(dir, r)
}

// present returns those of the files that dir has.
func present(dir string, names ...string) ([]string, error) {
	var found []string
	for _, name := range names {
		_, err := os.Stat(filepath.Join(dir, name))
		switch {
		case err == nil:
			found = append(found, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("report: %w", err)
		}
	}
	return found, nil
}
