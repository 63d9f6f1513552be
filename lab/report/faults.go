package report

import (
	"regexp"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

// fault is one that was done to the system.
type fault struct {
	name     string
	text     string // of its begin
	after    string // of its end, where that says something else
	from, to float64
	open     bool // the history does not say that it ended
	targets  []string
}

// band is a fault in the picture.
type band struct {
	Name  string  `json:"name"`
	Text  string  `json:"text,omitempty"`
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Open  bool    `json:"open,omitempty"`
	Lanes []int   `json:"lanes"` // of those it hit
	Row   int     `json:"row"`   // of labels, so that they do not cover each other
}

func (d *reading) readFaults() {
	open := map[string][]int{} // by name, the last begun last
	for _, e := range d.events {
		if e.Kind != history.Fault {
			continue
		}
		at := d.ms(e.At)
		if e.State == history.Begin {
			open[e.Fault] = append(open[e.Fault], len(d.faults))
			d.faults = append(d.faults, fault{name: e.Fault, text: e.Text, from: at, to: d.To, open: true, targets: targets(e)})
			continue
		}
		if last := open[e.Fault]; len(last) > 0 {
			f := &d.faults[last[len(last)-1]]
			f.to, f.open = at, false
			if e.Text != f.text {
				f.after = e.Text
			}
			open[e.Fault] = last[:len(last)-1]
		}
	}
}

func (d *reading) makeBands() {
	d.Bands = []band{}
	var ends []float64 // of each row of labels
	for _, f := range d.faults {
		b := band{Name: f.name, Text: f.text, From: f.from, To: f.to, Open: f.open, Lanes: []int{}}
		for _, t := range f.targets {
			b.Lanes = append(b.Lanes, d.laneOf(t))
		}
		b.Row = slices.IndexFunc(ends, func(end float64) bool { return end <= f.from })
		if b.Row < 0 {
			b.Row = len(ends)
			ends = append(ends, 0)
		}
		ends[b.Row] = f.to
		d.Bands = append(d.Bands, b)
	}
}

var processName = regexp.MustCompile(`\b(worker|guard|zookeeper)-\d+\b|\b(postgres|redis|zookeeper)\b`)

// targets are the processes that the lab says a fault hit; without any, the process that said so itself.
func targets(e history.Event) []string {
	names := processName.FindAllString(e.Text, -1)
	if len(names) == 0 {
		names = processName.FindAllString(e.Fault, -1)
	}
	if len(names) == 0 && e.Process != "" {
		names = []string{history.Worker(e.Process)}
	}
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

// kills is whether the target of a fault is gone when it begins.
func kills(e history.Event) bool {
	for _, killing := range []lab.Action{lab.Kill, lab.Wipe, lab.Restore} {
		if strings.Contains(e.Fault, string(killing)) {
			return true
		}
	}
	return false
}
