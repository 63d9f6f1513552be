package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

//go:embed beside.html
var besideText string

var besideTemplate = template.Must(template.New("beside").Parse(besideText))

// The element of a page that has the other run.
const besideBegin, besideEnd = `<aside id="beside">`, `</aside>`

// comparable reports whether two runs differ in the guard alone, as the commands that repeat them
// say.
func comparable(a, b *history.Header) bool {
	command := func(h *history.Header) string {
		return strings.Replace(h.Command, " --unguarded", "", 1)
	}
	return a != nil && b != nil && a.Guarded != b.Guarded && a.Control == "" && b.Control == "" &&
		a.Scenario == b.Scenario && a.Command != "" && command(a) == command(b)
}

// pair writes into the page of a run, and into that of the last run beside it which differs in the
// guard alone, how the two compare. Without such a run it does nothing.
func pair(dir string, r check.Result) error {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*", ResultsFile))
	if err != nil {
		return err
	}
	var other check.Result
	at := ""
	for _, file := range files {
		o, err := readResult(file)
		if err == nil && comparable(r.Header, o.Header) &&
			(at == "" || o.Header.Started.After(other.Header.Started)) {
			other, at = o, filepath.Dir(file)
		}
	}
	if at == "" {
		return nil
	}
	if err := compare(dir, r, path.Join("..", filepath.Base(at)), other); err != nil {
		return err
	}
	return compare(at, other, path.Join("..", filepath.Base(dir)), r)
}

func readResult(file string) (r check.Result, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// compared is one run of two.
type compared struct {
	Name, Link string // Link is empty for the run of the page
	Verdict    verdict
	Figures    check.Figures
	TakeOver   string
}

// compare writes into the page of a run how it compares with another one, in the directory other.
func compare(dir string, r check.Result, other string, o check.Result) error {
	file := filepath.Join(dir, PageFile)
	page, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	before, rest, ok := bytes.Cut(page, []byte(besideBegin))
	_, after, closed := bytes.Cut(rest, []byte(besideEnd))
	if !ok || !closed {
		return nil // a page of an older lab
	}
	run := func(r check.Result, link string) compared {
		name := "with the guard"
		if !r.Header.Guarded {
			name = "without the guard"
		}
		return compared{name, link, verdictOf(r), r.Figures, TakeOver(r.Figures)}
	}
	var beside bytes.Buffer
	err = besideTemplate.Execute(&beside, struct {
		Here *history.Header
		Runs []compared
	}{r.Header, []compared{run(r, ""), run(o, path.Join(other, PageFile))}})
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	text := string(before) + besideBegin + beside.String() + besideEnd + string(after)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
