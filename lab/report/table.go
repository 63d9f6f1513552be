package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/scenario"
)

var columns = []string{
	"SCENARIO", "COORDINATOR", "VERDICT", "CHANGES", "WRITES", "STALE ATTEMPTS", "STALE ACCEPTED",
	"FALSE REFUSALS", "TAKE-OVER",
}

// verdictColumn is the last column that is text and so aligned to the left.
const verdictColumn = 2

// Table writes one line for each run and one that counts them, in colour if w is a terminal.
func Table(w io.Writer, results []check.Result) {
	rows := [][]string{columns}
	for _, r := range results {
		f := r.Figures
		rows = append(rows, []string{
			scenarioOf(r), coordinator(r), verdictOf(r).Word, fmt.Sprint(f.Changes),
			fmt.Sprint(f.Acknowledged),
			fmt.Sprint(f.StaleAttempts), fmt.Sprint(f.StaleAccepted), fmt.Sprint(f.FalseRefusals),
			TakeOver(f),
		})
	}
	widths := make([]int, len(columns))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	colours := isTerminal(w)
	for n, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = pad(cell, widths[i], i <= verdictColumn)
		}
		if n > 0 && colours {
			cells[verdictColumn] = paint(verdictOf(results[n-1]).Tone, cells[verdictColumn])
		}
		fmt.Fprintln(w, strings.Join(cells, "  "))
	}
	fmt.Fprintln(w, "\n"+total(results))
}

func pad(s string, width int, left bool) string {
	space := strings.Repeat(" ", width-utf8.RuneCountInString(s))
	if left {
		return s + space
	}
	return space + s
}

// scenarioOf returns the scenario's name, with the control or the missing guard.
func scenarioOf(r check.Result) string {
	h := header(r)
	switch {
	case h.Control != "" && h.Control != h.Scenario:
		return h.Scenario + " [" + h.Control + "]"
	case r.Header != nil && !h.Guarded:
		return h.Scenario + " [guard off]"
	}
	return h.Scenario
}

// coordinator returns the name of the coordinator for people. It was ZooKeeper when headers named
// none.
func coordinator(r check.Result) string {
	if r.Header == nil {
		return "-"
	}
	return scenario.Elections(r.Header.Coordinator).Name()
}

func total(results []check.Result) string {
	n := map[check.Verdict]int{}
	accepted := 0
	for _, r := range results {
		n[r.Verdict]++
		accepted += r.Figures.StaleAccepted
	}
	return fmt.Sprintf("%s: %d valid, %d invalid, %d unknown; %s accepted",
		count(len(results), "run"),
		n[check.Valid], n[check.Invalid], n[check.Unknown], count(accepted, "stale write"))
}

// isTerminal reports whether w shows colours. NO_COLOR (no-color.org) switches them off.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}

func paint(t tone, s string) string {
	colour := map[tone]string{good: "32;1", bad: "31;1", doubt: "33;1"}[t]
	if colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}
