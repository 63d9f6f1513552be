package check

import (
	"slices"
	"strings"

	"github.com/ringfence/ringfence/lab/history"
)

// fault is one thing that was done to the system, from its beginning to its end.
type fault struct {
	name, text, process string

	begin int64
	end   int64 // history.Never if the history does not say that it ended
}

func faults(events []history.Event) []fault {
	var all []fault
	for _, s := range history.Faults(events) {
		b := s.Begin
		all = append(all, fault{b.Fault, b.Text, b.Process, b.At, s.End.At})
	}
	return all
}

func (t fault) isFinalPhase() bool {
	return strings.HasPrefix(t.name, history.FinalPhase) ||
		strings.HasPrefix(t.name, history.OldFinalPhase)
}

// injected returns the faults that the lab injected. The final phase is one of them only if there
// is no other. What a worker reports of itself (history.Inside) is none.
func (r *run) injected() []fault {
	var all, others []fault
	for _, t := range r.faults {
		if t.name == history.Inside {
			continue
		}
		all = append(all, t)
		if !t.isFinalPhase() {
			others = append(others, t)
		}
	}
	if len(others) == 0 {
		return all
	}
	return others
}

// finalPhase returns when the final phase began, Never if there was none.
func (r *run) finalPhase() int64 {
	for _, t := range r.faults {
		if t.isFinalPhase() {
			return t.begin
		}
	}
	return history.Never
}

// kills returns how many processes the fault killed. (A beheaded process seems to end by itself.)
func (t fault) kills() int {
	if !strings.HasPrefix(t.name, "kill ") {
		return 0
	}
	return strings.Count(t.text, ",") + 1
}

// hits reports whether a process or server is the fault's target.
func (t fault) hits(name string) bool {
	words := strings.FieldsFunc(t.name+" "+t.text+" "+t.process, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
	return slices.Contains(words, name)
}

// hitsStore reports whether a server of the store is the fault's target: postgres, or postgres-2.
func (t fault) hitsStore(store string) bool {
	return t.hits(store) || t.hits(store+"-1") || t.hits(store+"-2") || t.hits(store+"-3")
}

// anyAt reports whether some fault was active at a time.
func anyAt(all []fault, at int64) bool {
	return slices.ContainsFunc(all, func(t fault) bool { return t.begin <= at && at <= t.end })
}
