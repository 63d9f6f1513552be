package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// saved is a run that was found below an index's directory.
type saved struct {
	Link     string // to its page, relative to the index
	Scenario string

	Coordinator string
	Seed        uint64
	Verdict     verdict
	When        string
	Figures     check.Figures
	TakeOver    string
	Problem     string // why results.json cannot be read

	Beside *saved // the last run that differs in the guard alone
	header *history.Header
}

// Guarded reports whether the guard was on.
func (s saved) Guarded() bool { return s.header != nil && s.header.Guarded }

// Index writes index.html into dir: every run below it, the newest first, including those with
// results that cannot be read.
func Index(dir string) error {
	runs, err := find(dir)
	if err != nil {
		return fmt.Errorf("report: index: %w", err)
	}
	slices.SortStableFunc(runs, func(a, b saved) int {
		return cmp.Or(strings.Compare(b.When, a.When), strings.Compare(a.Link, b.Link))
	})
	for i := range runs {
		j := slices.IndexFunc(runs, func(other saved) bool {
			return comparable(runs[i].header, other.header)
		})
		if j >= 0 {
			runs[i].Beside = &runs[j]
		}
	}
	links, err := present(dir, FormatFile, CheckerFile)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	err = indexTemplate.Execute(&page, struct {
		Style template.CSS
		Runs  []saved
		Links []string
	}{template.CSS(style), runs, links})
	if err != nil {
		return fmt.Errorf("report: index: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, IndexFile), page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("report: index: %w", err)
	}
	return nil
}

func find(dir string) ([]saved, error) {
	var runs []saved
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() != ResultsFile {
			return err
		}
		runs = append(runs, load(dir, name))
		return nil
	})
	return runs, err
}

// load never fails, so one broken run does not hide the others.
func load(dir, name string) saved {
	run := saved{Link: path.Join(path.Dir(name), PageFile)}
	r, err := readResult(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		run.Problem = name + " cannot be read: " + err.Error()
		return run
	}
	h := header(r)
	run.Scenario, run.Seed, run.When = scenarioOf(r), h.Seed, started(h)
	run.Coordinator = coordinator(r)
	run.header = r.Header
	run.Verdict, run.Figures, run.TakeOver = shownVerdict(r), r.Figures, TakeOver(r.Figures)
	return run
}
