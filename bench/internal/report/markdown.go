package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// markdown prints a table for the documentation, with a column for each way.
func (r *Report) markdown(out io.Writer) error {
	ways := r.ways()
	columns := append([]string{"row", "unit"}, ways...)
	compares := slices.Contains(ways, Direct)
	if compares {
		columns = append(columns, judged(r)+" : "+Direct, judged(r)+" : "+r.peer(), "CPU µs/op")
	} else {
		columns = append(columns, "least", "most", "bar")
	}
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(columns)
	line(slices.Repeat([]string{"---"}, len(columns)))
	for _, row := range r.measured() {
		cells := []string{row.Name, row.Unit}
		for _, way := range ways {
			cells = append(cells, row.median(way))
		}
		if compares {
			cells = append(cells, row.comparison(judged(r))...)
		} else {
			cells = append(cells, row.spread(ways[0])...)
		}
		line(cells)
	}
	_, err := fmt.Fprintf(out, "%s: %s. %s.\n\n%s", r.Suite, r.Machine, r.method(), b.String())
	return err
}

// ways returns every way that was measured, in the order in which they were.
func (r *Report) ways() (all []string) {
	for _, row := range r.measured() {
		for _, x := range row.results {
			if !slices.Contains(all, x.way) {
				all = append(all, x.way)
			}
		}
	}
	return all
}

// judged returns the way that the bars are about.
func judged(r *Report) string {
	for _, row := range r.measured() {
		if row.Bar != nil {
			return row.Bar.Way
		}
	}
	return "guard"
}

func (r *Row) median(way string) string {
	for _, v := range r.views() {
		if v.way == way {
			return number(v.median)
		}
	}
	return ""
}

// comparison returns the ratios of a way, and the CPU time of every proxy.
func (r *Row) comparison(way string) []string {
	cells := []string{"", "", ""}
	var cpu []string
	for _, v := range r.views() {
		if v.way == way {
			cells[0], cells[1] = ratio(v.direct), ratio(v.peer)
		}
		if text := number(v.cpu); text != "" {
			cpu = append(cpu, v.way+" "+text)
		}
	}
	cells[2] = strings.Join(cpu, ", ")
	return cells
}

// spread returns the least and the most of a way, and the bar.
func (r *Row) spread(way string) []string {
	cells := []string{"", "", ""}
	for _, v := range r.views() {
		if v.way == way {
			cells[0], cells[1] = number(v.least), number(v.most)
		}
	}
	if r.Bar != nil {
		cells[2] = number(r.Bar.Limit)
	}
	return cells
}
