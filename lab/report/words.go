package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// verdict shows a verdict in words and with a sign, so that colour is not needed.
type verdict struct {
	Sign, Word, Sentence string
	Tone                 tone
}

// tone says whether something is good or bad; page and terminal have a colour for each tone.
type tone string

const (
	good  tone = "good"
	bad   tone = "bad"
	doubt tone = "doubt"
	plain tone = "plain"
)

func verdictOf(r check.Result) verdict {
	v := verdict{
		Sign: "?", Word: string(check.Unknown), Tone: doubt, Sentence: "This run does not count.",
	}
	switch r.Verdict {
	case check.Valid:
		v = verdict{"✓", string(r.Verdict), valid(r.Figures), good}
	case check.Invalid:
		v = verdict{"✗", string(r.Verdict), invalid(r), bad}
	case check.Unknown:
		if len(r.Doubts) > 0 {
			v.Sentence = "This run does not count: " + r.Doubts[0]
		}
	}
	return v
}

func valid(f check.Figures) string {
	return fmt.Sprintf("No stale write got in: %s under an old token, and none was committed.",
		count(f.StaleAttempts, "attempt"))
}

func invalid(r check.Result) string {
	f := r.Figures
	switch {
	case f.StaleAccepted > 0:
		return fmt.Sprintf("%s got in after a newer token.", count(f.StaleAccepted, "stale write"))
	case f.Jobs != nil && f.Jobs.LateTaken > 0:
		return fmt.Sprintf("%s accepted under an attempt that was over.",
			count(f.Jobs.LateTaken, "completion"))
	case f.Lost > 0:
		return fmt.Sprintf("%s missing from the databases.", count(f.Lost, "acknowledged write"))
	case f.FalseRefusals > 0:
		return fmt.Sprintf("The rightful leader was refused: %s.",
			count(f.FalseRefusals, "false refusal"))
	case len(r.Problems) > 0:
		return fmt.Sprintf("Something happened that must never happen: %s.",
			count(len(r.Problems), "violation"))
	}
	return "Something happened that must never happen."
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// header returns a header even for a history that has lost its first line.
func header(r check.Result) history.Header {
	if r.Header == nil {
		return history.Header{Scenario: "a run without a header"}
	}
	h := *r.Header
	h.Scenario = cmp.Or(h.Scenario, "a run without a name")
	return h
}

// brief formats a duration for people.
func brief(d history.Duration) string {
	t := time.Duration(d)
	switch {
	case t >= 10*time.Second:
		return t.Round(100 * time.Millisecond).String()
	case t >= 10*time.Millisecond:
		return t.Round(time.Millisecond).String()
	}
	return t.Round(10 * time.Microsecond).String()
}

// takeOver returns the median and the longest, or two dashes.
func takeOver(f check.Figures) (median, longest string) {
	if len(f.TakeOvers) == 0 {
		return "-", "-"
	}
	all := slices.Sorted(slices.Values(f.TakeOvers))
	middle := all[len(all)/2]
	if len(all)%2 == 0 {
		middle = (middle + all[len(all)/2-1]) / 2
	}
	return brief(middle), brief(all[len(all)-1])
}

// TakeOver formats the median and the longest take-over, for a cell of a table.
func TakeOver(f check.Figures) string {
	median, longest := takeOver(f)
	if median == "-" {
		return "-"
	}
	return median + " (" + longest + ")"
}

// place formats a problem's process and operation, as far as it has them.
func place(p check.Problem) string {
	switch {
	case p.Process != "" && p.Op != "":
		return p.Process + ", " + p.Op
	case p.Process == "":
		return p.Op
	}
	return p.Process
}
