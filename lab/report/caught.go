package report

import (
	"slices"
	"strings"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/scenario"
)

// CaughtBy returns the invariants that the run of a control has violated, and whether one of them
// is one that should catch its seeded bug.
func CaughtBy(c scenario.Control, r check.Result) (by []string, ok bool) {
	for _, problem := range r.Problems {
		if !slices.Contains(by, problem.Invariant) {
			by = append(by, problem.Invariant)
		}
	}
	if r.Verdict == check.Unknown && len(r.Doubts) > 0 {
		by = append(by, "doubt")
	}
	return by, slices.ContainsFunc(c.By, func(want string) bool { return slices.Contains(by, want) })
}

// shownVerdict is the verdict for a page. That of a control is good if the lab has caught the bug,
// because it was seeded for that.
func shownVerdict(r check.Result) verdict {
	v := verdictOf(r)
	c, seeded := scenario.FindControl(header(r).Control)
	if !seeded {
		return v
	}
	by, ok := CaughtBy(c, r)
	if !ok {
		return verdict{"✗", "NOT CAUGHT: seeded bug", "The lab has not found the bug that was seeded: " +
			c.Bug + ".", bad}
	}
	return verdict{
		"✓", "CAUGHT: seeded bug", "Caught by " + strings.Join(by, ", ") + ". " + v.Sentence, good,
	}
}
