package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Direct is the way without a proxy, with which every other is compared.
const Direct = "direct"

// Report has everything that one run has measured.
type Report struct {
	Suite    string // what was measured, such as "postgres"
	Machine  Machine
	Programs []string // what was measured with which versions, such as "PgBouncer 1.18.0"
	Notes    []string // for the reader

	options Options
	rows    []*Row
}

// New returns an empty report.
func New(suite string, o Options) *Report {
	return &Report{Suite: suite, Machine: thisMachine(o.Guard), options: o}
}

// Row adds a row, and returns it for the measurements.
func (r *Report) Row(row Row) *Row {
	r.rows = append(r.rows, &row)
	return &row
}

// Note adds a sentence for the reader.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// measured returns the rows that have values.
func (r *Report) measured() (all []*Row) {
	for _, row := range r.rows {
		if len(row.results) > 0 {
			all = append(all, row)
		}
	}
	return all
}

// jsonRow is a row for JSON. Figures that were not measured are left out.
type jsonRow struct {
	Name  string    `json:"name"`
	Unit  string    `json:"unit"`
	Lower bool      `json:"lower_is_better"`
	Ways  []jsonWay `json:"ways"`
	Bar   *jsonBar  `json:"bar,omitempty"`
}

type jsonWay struct {
	Name   string    `json:"name"`
	Median float64   `json:"median"`
	Least  float64   `json:"least"`
	Most   float64   `json:"most"`
	Values []float64 `json:"values"` // of the rounds, in order
	Direct *float64  `json:"ratio_to_direct,omitempty"`
	Peer   *float64  `json:"ratio_to_peer,omitempty"`
	Best   *float64  `json:"ratio_to_best_peer,omitempty"`
	CPU    *float64  `json:"cpu_us_per_operation,omitempty"`
}

type jsonBar struct {
	Way     string   `json:"way"`
	Against string   `json:"against,omitempty"`
	Limit   float64  `json:"limit"`
	Value   *float64 `json:"value,omitempty"`
	Met     bool     `json:"met"`
}

// JSON implements Result. Rows without a measurement are left out.
func (r *Report) JSON(out io.Writer) error {
	var rows []jsonRow
	for _, row := range r.measured() {
		rows = append(rows, row.json())
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"suite": r.Suite, "machine": r.Machine, "programs": r.Programs, "rounds": r.options.Rounds,
		"seconds": r.options.Seconds, "notes": r.Notes, "rows": rows,
	})
}

func (r *Row) json() jsonRow {
	j := jsonRow{Name: r.Name, Unit: r.Unit, Lower: r.Lower}
	for _, v := range r.views() {
		j.Ways = append(j.Ways, jsonWay{
			Name: v.way, Median: v.median, Least: v.least, Most: v.most, Values: v.values,
			Direct: known(v.direct), Peer: known(v.peer), Best: known(v.best), CPU: known(v.cpu),
		})
	}
	if r.Bar != nil {
		value, met := r.judge()
		j.Bar = &jsonBar{
			Way: r.Bar.Way, Against: r.Bar.Against, Limit: r.Bar.Limit, Value: known(value), Met: met,
		}
	}
	return j
}

// known returns nil for what was not measured, which JSON cannot express as a number.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
