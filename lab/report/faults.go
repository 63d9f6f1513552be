package report

import (
	"regexp"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// fault is one thing that was done to the system.
type fault struct {
	name     string
	text     string // of its beginning
	after    string // of its end, if that differs
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
	Lanes []int   `json:"lanes"` // of its targets
	Row   int     `json:"row"`   // of labels, so that they do not overlap
}

func (d *reading) readFaults() {
	for _, s := range history.Faults(d.events) {
		f := fault{
			name: s.Begin.Fault, text: s.Begin.Text, from: d.ms(s.Begin.At), to: d.To, open: true,
			targets: targets(s.Begin),
		}
		if s.End.At != history.Never {
			f.to, f.open = d.ms(s.End.At), false
			if s.End.Text != f.text {
				f.after = s.End.Text
			}
		}
		d.faults = append(d.faults, f)
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

var processName = regexp.MustCompile(
	`\b(worker|guard|zookeeper|etcd|elections|postgres|redis)-\d+\b|` +
		`\b(elections|postgres|redis|zookeeper)\b`)

// targets returns the processes that a fault hit, according to the lab; if it names none, the
// process that reported the fault itself.
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

// kills reports whether the target of a fault is gone when the fault begins.
func kills(e history.Event) bool {
	for _, killing := range []scenario.Action{scenario.Kill, scenario.Wipe, scenario.Restore} {
		if strings.Contains(e.Fault, string(killing)) {
			return true
		}
	}
	return false
}
