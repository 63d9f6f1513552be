package check

import (
	"slices"
	"strings"

	"github.com/ringfence/ringfence/lab/history"
)

const (
	// codaPrefix begins the name of the fault that ends a run: the leader loses its term. It lasts until the next one has written.
	codaPrefix = "coda: "
	// insideName is what a worker says of itself while it stands inside a transaction. The lab says its own faults.
	insideName = "inside"
)

// fault is one thing that was done to the system, from its Begin to its End.
type fault struct {
	name, text, process string

	begin int64
	end   int64 // never, when the history does not say that it ended
}

// bands pairs Begins with Ends, by name: faults lie within each other, and the same one may come again.
func bands(events []history.Event) []fault {
	var all []fault
	open := map[string][]int{}
	for _, e := range events {
		if e.Kind != history.Fault {
			continue
		}
		name := e.Fault + "\x00" + e.Process
		switch waiting := open[name]; {
		case e.State == history.Begin:
			open[name] = append(waiting, len(all))
			all = append(all, fault{name: e.Fault, text: e.Text, process: e.Process, begin: e.At, end: never})
		case e.State == history.Over && len(waiting) > 0:
			all[waiting[0]].end = e.At
			open[name] = waiting[1:]
		}
	}
	return all
}

func (t fault) coda() bool { return strings.HasPrefix(t.name, codaPrefix) }

// done are the faults of the lab, without the coda if there is any other.
func (r *run) done() []fault {
	var all, others []fault
	for _, t := range r.faults {
		if t.name == insideName {
			continue
		}
		all = append(all, t)
		if !t.coda() {
			others = append(others, t)
		}
	}
	if len(others) == 0 {
		return all
	}
	return others
}

// coda is when the run's last act began, never when it has none.
func (r *run) coda() int64 {
	for _, t := range r.faults {
		if t.coda() {
			return t.begin
		}
	}
	return never
}

// kills tells how many processes a fault has killed. (One that is beheaded ends by itself, for all the lab knows.)
func (t fault) kills() int {
	if !strings.HasPrefix(t.name, "kill ") {
		return 0
	}
	return strings.Count(t.text, ",") + 1
}

// hits tells whether a process or server is the fault's target.
func (t fault) hits(name string) bool {
	words := strings.FieldsFunc(t.name+" "+t.text+" "+t.process, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
	return slices.Contains(words, name)
}

// lasted tells that some fault was under way at a time.
func lasted(all []fault, at int64) bool {
	return slices.ContainsFunc(all, func(t fault) bool { return t.begin <= at && at <= t.end })
}
