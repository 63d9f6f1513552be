package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/ringfence/ringfence/bench/internal/rounds"
)

// view is a result as the reader sees it. What was not measured, or is no comparison, is NaN.
type view struct {
	way                 string
	values              []float64
	median, least, most float64
	direct, peer, best  float64 // ratios to direct, to the bar's peer, and to the best peer
	cpu                 float64
}

func (r *Row) views() (all []view) {
	for _, x := range r.results {
		all = append(all, view{
			way: x.way, values: x.values, median: rounds.Median(x.values),
			least: slices.Min(x.values), most: slices.Max(x.values),
			direct: r.compare(x.way, Direct), peer: r.compareProxies(x.way, r.peer()),
			best: r.compareProxies(x.way, r.bestPeer()), cpu: rounds.Median(x.cpu),
		})
	}
	return all
}

// compare returns a ratio, or NaN for a way and itself.
func (r *Row) compare(way, other string) float64 {
	if way == other {
		return math.NaN()
	}
	return r.Ratio(way, other)
}

// compareProxies returns a ratio, or NaN for the direct connection too: proxies are compared with
// it, and not it with them.
func (r *Row) compareProxies(way, other string) float64 {
	if way == Direct {
		return math.NaN()
	}
	return r.compare(way, other)
}

// peer returns the way that the bar compares with.
func (r *Row) peer() string {
	if r.Bar == nil {
		return ""
	}
	return r.Bar.Against
}

// bestPeer returns the best way that is neither direct nor the one that is judged.
func (r *Row) bestPeer() string {
	if r.Bar == nil || r.Bar.Against == "" {
		return ""
	}
	return r.best(func(way string) bool { return way != Direct && way != r.Bar.Way })
}

func (r *Report) Table(out io.Writer) error {
	fmt.Fprintf(out, "%s: %s\n", r.Suite, r.Machine)
	if len(r.Programs) > 0 {
		fmt.Fprintln(out, strings.Join(r.Programs, ", "))
	}
	fmt.Fprintf(out, "Client, proxies and servers share this machine. %s.\n\n", r.method())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "row\tway\tmedian\tleast\tmost\t: direct\t: %s\t: best peer\tCPU µs/op\t\n",
		r.peer())
	for i, row := range r.measured() {
		if i > 0 && len(row.results) > 1 {
			fmt.Fprintln(w, "\t\t\t\t\t\t\t\t\t")
		}
		row.print(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := r.printBars(out); err != nil {
		return err
	}
	for _, note := range r.Notes {
		fmt.Fprintln(out, note)
	}
	return nil
}

// peer names the way with which the bars compare.
func (r *Report) peer() string {
	for _, row := range r.measured() {
		if row.peer() != "" {
			return row.peer()
		}
	}
	return "peer"
}

// method says how the figures came about.
func (r *Report) method() string {
	text := fmt.Sprintf("Medians of %d rounds, in turns", r.options.Rounds)
	if r.options.Seconds > 0 {
		text += fmt.Sprintf(", %g s each", r.options.Seconds)
	}
	return text
}

func (r *Row) print(w io.Writer) {
	for i, v := range r.views() {
		name := r.Name + " (" + r.Unit + ")"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, v.way,
			number(v.median), number(v.least), number(v.most),
			ratio(v.direct), ratio(v.peer), ratio(v.best), number(v.cpu))
	}
}

func (r *Report) printBars(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nbar\tmeasured\tspread\twanted\t")
	some := false
	for _, row := range r.measured() {
		if row.Bar == nil || row.of(row.Bar.Way) == nil {
			continue
		}
		some = true
		fmt.Fprintln(w, row.verdict())
	}
	if !some {
		return nil
	}
	return w.Flush()
}

// verdict is a line of the table of bars.
func (r *Row) verdict() string {
	value, met := r.judge()
	verdict := "MISSED"
	switch {
	case math.IsNaN(value):
		verdict = "not measured"
	case met:
		verdict = "met"
	}
	b := r.Bar
	if b.Against == "" {
		limit := "at most"
		if !r.Lower {
			limit = "at least"
		}
		x := r.of(b.Way)
		return fmt.Sprintf("%s, %s\t%s\t%s-%s\t%s %s\t%s", r.Name, r.Unit, number(value),
			number(slices.Min(x.values)), number(slices.Max(x.values)), limit, number(b.Limit), verdict)
	}
	least, most := r.ratioSpread(b.Way, b.Against)
	return fmt.Sprintf("%s, %s : %s\t%s\t%s-%s\tat least %s\t%s", r.Name, b.Way, b.Against,
		ratio(value), ratio(least), ratio(most), ratio(b.Limit), verdict)
}

func ratio(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

// number prints at least three digits.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case math.Abs(v) >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
