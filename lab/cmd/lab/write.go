package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/report"
	"github.com/ringfence/ringfence/lab/scenario"
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

const jobsHead = "| scenario | coordinator | verdict | jobs done | runs | taken back | " +
	"stale attempts | stale writes accepted | late results | late results accepted | take-over | " +
	"guard off: stale writes accepted |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// updateResults writes the results of comparisons into the coordinator's table in the file, and
// those about jobs into the table of jobs. Rows of scenarios that were not run stay as they are,
// unless there is no such scenario any more.
func updateResults(file string, on scenario.Elections, with, without []check.Result) error {
	var jobs, others bool
	for _, r := range with {
		jobs = jobs || r.Figures.Jobs != nil
		others = others || r.Figures.Jobs == nil
	}
	if others {
		if err := updateElections(file, on, with, without); err != nil {
			return err
		}
	}
	if jobs {
		return updateJobs(file, on, with, without)
	}
	return nil
}

// rowsOf reads a table's rows, by as many of their first cells.
func rowsOf(table string, cells int) map[string]string {
	rows := map[string]string{}
	for row := range strings.Lines(table) {
		if all := strings.Split(row, "|"); len(all) > cells {
			rows[strings.Join(all[1:1+cells], "|")] = row
		}
	}
	return rows
}

// accepted returns how many stale writes the i-th run without the guard has accepted.
func accepted(without []check.Result, i int) string {
	if i < len(without) {
		return strconv.Itoa(without[i].Figures.StaleAccepted)
	}
	return ""
}

// updateJobs writes the table of jobs, which has a row for each scenario on each coordinator.
func updateJobs(file string, on scenario.Elections, with, without []check.Result) error {
	const name = "results jobs"
	old, err := between(file, name)
	if err != nil {
		return err
	}
	rows := rowsOf(old, 2)
	key := func(scenario string, on scenario.Elections) string {
		return " " + scenario + " | " + on.Name() + " "
	}
	for i, r := range with {
		f, j := r.Figures, r.Figures.Jobs
		if j == nil {
			continue
		}
		k := key(r.Header.Scenario, on)
		rows[k] = fmt.Sprintf("|%s| %s | %d | %d | %d | %d | %d | %d | %d | %s | %s |\n", k, r.Verdict,
			j.Done,
			j.Assignments, j.TakenBack, f.StaleAttempts, f.StaleAccepted, j.Late, j.LateTaken,
			report.TakeOver(f), accepted(without, i))
	}
	var b strings.Builder
	b.WriteString(jobsHead)
	for _, s := range scenario.Catalogue {
		for _, on := range scenario.AllElections {
			b.WriteString(rows[key(s.Name, on)])
		}
	}
	return replace(file, name, b.String())
}

// updateElections writes a coordinator's table.
func updateElections(file string, on scenario.Elections, with, without []check.Result) error {
	name := "results " + string(on)
	old, err := between(file, name)
	if err != nil {
		return err
	}
	rows := rowsOf(old, 1)
	for i, r := range with {
		f := r.Figures
		if f.Jobs != nil {
			continue
		}
		rows[" "+r.Header.Scenario+" "] = fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %s | %s |\n",
			r.Header.Scenario, r.Verdict, f.Changes, f.Acknowledged, f.StaleAttempts, f.StaleAccepted,
			f.FalseRefusals, report.TakeOver(f), accepted(without, i))
	}
	var b strings.Builder
	b.WriteString(resultsHead)
	for _, s := range scenario.Catalogue {
		b.WriteString(rows[" "+s.Name+" "])
	}
	return replace(file, name, b.String())
}
