package report

import (
	"fmt"
	"io"

	"github.com/ringfence/ringfence/lab/check"
)

// firstLines bounds the problems, and the doubts, in a summary.
const firstLines = 5

// Summary writes a few lines about one run.
func Summary(w io.Writer, r check.Result) {
	v, f := verdictOf(r), r.Figures
	word := v.Sign + " " + v.Word
	if isTerminal(w) {
		word = paint(v.Tone, word)
	}
	what := scenarioOf(r)
	if r.Header != nil {
		what += " (" + coordinator(r) + ")"
	}
	fmt.Fprintf(w, "%s: %s\n  %s\n", what, word, v.Sentence)
	for _, p := range r.Problems[:min(len(r.Problems), firstLines)] {
		fmt.Fprintf(w, "  problem  %s %s\n", p.Invariant, p.Text)
	}
	more(w, len(r.Problems), "problem")
	for _, d := range r.Doubts[:min(len(r.Doubts), firstLines)] {
		fmt.Fprintf(w, "  doubt    %s\n", d)
	}
	more(w, len(r.Doubts), "doubt")
	fmt.Fprintf(w, "  writes   %d acknowledged of %d, %d unknown, %d lost; "+
		"%.0f/s before, %.0f/s in, %.0f/s after the faults\n",
		f.Acknowledged, f.Writes, f.Unknown, f.Lost, f.Before, f.During, f.After)
	fmt.Fprintf(w, "  stale    %s, %d refused, %d accepted; %s\n",
		count(f.StaleAttempts, "attempt"), f.StaleRefused, f.StaleAccepted, count(f.FalseRefusals,
			"false refusal"))
	fmt.Fprintf(w, "  leaders  %s, take-over %s\n", count(f.Changes, "change"), TakeOver(f))
	if j := f.Jobs; j != nil {
		fmt.Fprintf(w, "  jobs     %d submitted, %d done; %s, %d taken back; %d late completions, "+
			"%d accepted\n", j.Submitted, j.Done, count(j.Assignments, "assignment"), j.TakenBack, j.Late,
			j.LateTaken)
	}
	if h := header(r); h.Command != "" {
		fmt.Fprintf(w, "  again    %s\n", h.Command)
	}
}

func more(w io.Writer, n int, what string) {
	if n > firstLines {
		fmt.Fprintf(w, "           and %s more\n", count(n-firstLines, what))
	}
}
