package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/report"
)

// replace puts text between the marks <!-- name --> and <!-- /name --> of a file.
func replace(file, name, text string) error {
	before, _, after, err := cut(file, name)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(before+text+after), 0o644)
}

// between returns what is between the marks.
func between(file, name string) (string, error) {
	_, text, _, err := cut(file, name)
	return text, err
}

// cut returns the parts of a file: up to the first mark, between the marks, and the rest.
func cut(file, name string) (before, text, after string, err error) {
	all, err := os.ReadFile(file)
	if err != nil {
		return "", "", "", err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, ok := strings.Cut(string(all), begin)
	text, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", "", "", fmt.Errorf("%s has no marks %q and %q", file, begin, end)
	}
	return before + begin, text, end + after, nil
}

const resultsHead = "| scenario | verdict | leadership changes | writes acknowledged | " +
	"stale attempts | stale writes accepted | false refusals | take-over | " +
	"guard off: stale writes accepted |\n|---|---|---|---|---|---|---|---|---|\n"

// updateResults writes the results of comparisons into the coordinator's table in the file. Rows of
// scenarios that were not run stay as they are, unless there is no such scenario any more.
func updateResults(file string, on lab.Elections, with, without []check.Result) error {
	name := "results " + string(on)
	old, err := between(file, name)
	if err != nil {
		return err
	}
	rows := map[string]string{}
	for row := range strings.Lines(old) {
		if cells := strings.Split(row, "|"); len(cells) > 1 {
			rows[strings.TrimSpace(cells[1])] = row
		}
	}
	for i, r := range with {
		accepted := ""
		if i < len(without) {
			accepted = strconv.Itoa(without[i].Figures.StaleAccepted)
		}
		f := r.Figures
		rows[r.Header.Scenario] = fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %s | %s |\n",
			r.Header.Scenario, r.Verdict, f.Changes, f.Acknowledged, f.StaleAttempts, f.StaleAccepted,
			f.FalseRefusals, report.TakeOver(f), accepted)
	}
	var b strings.Builder
	b.WriteString(resultsHead)
	for _, s := range lab.Catalogue {
		b.WriteString(rows[s.Name])
	}
	return replace(file, name, b.String())
}
