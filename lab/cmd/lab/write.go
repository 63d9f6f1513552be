package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/report"
)

// replace puts text between the marks <!-- name --> and <!-- /name --> of a file.
func replace(file, name, text string) error {
	all, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, ok := strings.Cut(string(all), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no marks %q and %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+text+end+after), 0o644)
}

// updateResults writes the results of a comparison into the file.
func updateResults(file string, with, without []check.Result) error {
	var b strings.Builder
	b.WriteString("| scenario | verdict | leadership changes | stale attempts | " +
		"stale writes accepted | false refusals | take-over | guard off: verdict | " +
		"guard off: accepted |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for i, r := range with {
		f := r.Figures
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %s | ", r.Header.Scenario, r.Verdict,
			f.Changes, f.StaleAttempts, f.StaleAccepted, f.FalseRefusals, report.TakeOver(f))
		if i < len(without) {
			fmt.Fprintf(&b, "%s | %d |\n", without[i].Verdict, without[i].Figures.StaleAccepted)
		} else {
			b.WriteString("| |\n")
		}
	}
	return replace(file, "results", b.String())
}
