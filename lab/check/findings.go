package check

import (
	"cmp"
	"fmt"
	"slices"
)

// mostListed is how many problems of one invariant are listed; one line counts the rest.
const mostListed = 20

// findings collects what the invariants find.
type findings struct {
	problems []Problem
	doubts   []string
}

func (f *findings) doubt(format string, args ...any) {
	f.doubts = append(f.doubts, fmt.Sprintf(format, args...))
}

// atRun adds a violation by the run as a whole, or by an event that is not an operation.
func (f *findings) atRun(invariant string, at int64, process, format string, args ...any) {
	f.problems = append(f.problems, Problem{
		Invariant: invariant, At: at, Process: process, Text: fmt.Sprintf(format, args...),
	})
}

// atOp adds a violation by an operation.
func (f *findings) atOp(invariant string, o *op, format string, args ...any) {
	f.problems = append(f.problems, Problem{
		Invariant: invariant, At: o.when(), Process: o.process, Op: o.id,
		Text: fmt.Sprintf(format, args...),
	})
}

// atRow adds a violation that a database shows, at the time of its operation if that is known.
func (f *findings) atRow(invariant string, w row, format string, args ...any) {
	if w.op != nil {
		f.atOp(invariant, w.op, format, args...)
		return
	}
	p := Problem{Invariant: invariant, At: w.At, Op: w.Op, Text: fmt.Sprintf(format, args...)}
	f.problems = append(f.problems, p)
}

// verdict: a violation outweighs any doubt.
func (f *findings) verdict() Verdict {
	switch {
	case len(f.problems) > 0:
		return Invalid
	case len(f.doubts) > 0:
		return Unknown
	}
	return Valid
}

// listed returns the problems, the earliest first and those of the run as a whole last, at most
// mostListed of each invariant.
func (f *findings) listed() []Problem {
	slices.SortStableFunc(f.problems, func(a, b Problem) int {
		if (a.At == 0) != (b.At == 0) {
			return cmp.Compare(b.At, a.At)
		}
		return cmp.Compare(a.At, b.At)
	})
	var all []Problem
	seen := map[string]int{}
	var cut []Problem
	for _, p := range f.problems {
		seen[p.Invariant]++
		switch n := seen[p.Invariant]; {
		case n <= mostListed:
			all = append(all, p)
		case n == mostListed+1:
			cut = append(cut, Problem{Invariant: p.Invariant})
		}
	}
	for _, p := range cut {
		p.Text = fmt.Sprintf("and %d more violations of %s", seen[p.Invariant]-mostListed,
			p.Invariant)
		all = append(all, p)
	}
	return all
}
