package report

import (
	"fmt"

	"github.com/ringfence/ringfence/lab/check"
	"github.com/ringfence/ringfence/lab/history"
)

// problemRow is a line in the list of violations.
type problemRow struct {
	Invariant, When, Place, Text string
}

func (d *reading) problemRows(problems []check.Problem) []problemRow {
	var rows []problemRow
	for i, s := range d.Problems {
		p := problems[i]
		rows = append(rows, problemRow{p.Invariant, seconds(s.At), place(p), p.Text})
	}
	return rows
}

type faultRow struct {
	Name, Begin, End, Lasted, Text, After string
}

func (d *reading) faultRows() []faultRow {
	var rows []faultRow
	for _, f := range d.faults {
		row := faultRow{
			f.name, seconds(f.from), seconds(f.to), seconds(f.to - f.from), f.text, f.after,
		}
		if f.open {
			row.End, row.Lasted = "not ended", ""
		}
		rows = append(rows, row)
	}
	return rows
}

type termRow struct {
	Token, Process, Won, Ready, Over, Cause string
	Acknowledged, Refused                   int
}

func (d *reading) termRows() []termRow {
	var rows []termRow
	for _, t := range d.terms {
		rows = append(rows, termRow{
			t.token.String(), t.process, seconds(t.won), seconds(t.ready), seconds(t.over), t.cause,
			t.acknowledged, t.refused,
		})
	}
	return rows
}

type noteRow struct {
	At, Process, Text string
}

// noteRows also returns how many notes it left out.
func (d *reading) noteRows(events []history.Event) (rows []noteRow, more int) {
	for _, e := range events {
		if e.Kind != history.Note {
			continue
		}
		if len(rows) == mostNotes {
			more++
			continue
		}
		rows = append(rows, noteRow{seconds(d.ms(e.At)), e.Process, e.Text})
	}
	return rows, more
}

// seconds formats milliseconds since the start of the run; a negative number is no time.
func seconds(ms float64) string {
	if ms < 0 {
		return ""
	}
	return fmt.Sprintf("%.3f s", ms/1000)
}
