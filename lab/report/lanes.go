package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/lab/history"
)

// lane is the lane of one process.
type lane struct {
	Name string   `json:"name"`
	Kind laneKind `json:"kind"`
	Rows []string `json:"rows"` // of operations: one for each store, as a process may write to both
}

type laneKind string

const (
	workerLane laneKind = "worker" // it stands for election
	serverLane laneKind = "server" // a fault hit it
)

func rowOf(o *operation) string {
	if o.Store != "" {
		return o.Store
	}
	if _, part, found := strings.Cut(o.Process, "/"); found {
		return part
	}
	return "operations"
}

// makeLanes puts workers first, and then the other targets of faults.
func (d *reading) makeLanes() {
	rows := map[string][]string{}
	for _, e := range d.events {
		if p := history.Worker(e.Process); e.Kind != history.Fault && rows[p] == nil {
			rows[p] = []string{}
		}
	}
	for _, o := range d.Ops {
		if p, row := history.Worker(o.Process), rowOf(o); !slices.Contains(rows[p], row) {
			rows[p] = append(rows[p], row)
		}
	}
	d.Lanes = []lane{}
	for name, r := range rows {
		slices.Sort(r)
		d.Lanes = append(d.Lanes, lane{name, workerLane, r})
	}
	for _, f := range d.faults {
		for _, name := range f.targets {
			if d.laneOf(name) < 0 {
				d.Lanes = append(d.Lanes, lane{name, kindOf(name), []string{}})
			}
		}
	}
	slices.SortFunc(d.Lanes, func(a, b lane) int {
		return cmp.Or(-strings.Compare(string(a.Kind), string(b.Kind)),
			compareNames(a.Name, b.Name))
	})
	for _, o := range d.Ops {
		o.Lane = d.laneOf(history.Worker(o.Process))
		o.Row = max(0, slices.Index(d.Lanes[o.Lane].Rows, rowOf(o)))
	}
}

func kindOf(name string) laneKind {
	if strings.HasPrefix(name, "worker-") {
		return workerLane
	}
	return serverLane
}

func (d *reading) laneOf(process string) int {
	return slices.IndexFunc(d.Lanes, func(l lane) bool { return l.Name == process })
}

// compareNames puts worker-10 after worker-9.
func compareNames(a, b string) int {
	nameA, numberA := splitNumber(a)
	nameB, numberB := splitNumber(b)
	return cmp.Or(strings.Compare(nameA, nameB), cmp.Compare(numberA, numberB),
		strings.Compare(a, b))
}

func splitNumber(s string) (string, int) {
	i := strings.LastIndexByte(s, '-')
	if n, err := strconv.Atoi(s[i+1:]); i >= 0 && err == nil {
		return s[:i], n
	}
	return s, 0
}
