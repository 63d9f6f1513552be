package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/bench/internal/rounds"
)

// report has the measurements.
type report struct {
	plan   plan
	server string // version and durability settings
	trips  map[string]float64
	cells  []*cell
}

func newReport(ctx context.Context, s *stage, p plan) (*report, error) {
	conn, err := pgx.Connect(ctx, s.directURL())
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r := &report{plan: p, trips: map[string]float64{}}
	var fsync string
	err = conn.QueryRow(ctx, `select 'Postgres ' || current_setting('server_version') ||
		', fsync ' || current_setting('fsync') || ', ' || current_setting('wal_sync_method'),
		current_setting('fsync')`).Scan(&r.server, &fsync)
	if err == nil && fsync != "on" {
		err = fmt.Errorf("the server runs with fsync %s", fsync)
	}
	return r, err
}

// row is a cell for printing.
type row struct {
	Commit     string  `json:"synchronous_commit"`
	Tasks      int     `json:"tasks"`
	Contender  string  `json:"contender"`
	Rate       float64 `json:"steps_per_second"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	ByHand     float64 `json:"times_by_hand"`   // steps per second, relative to those by hand
	RoundTrips float64 `json:"round_trips"`     // of one task's step
	Steps      int64   `json:"steps_per_round"` // of all tasks
}

func (r *report) row(c *cell) row {
	return row{
		Commit: c.commit, Tasks: c.tasks, Contender: c.entry.name,
		Rate: rounds.Median(c.rates), P50: 1e3 * rounds.Median(c.p50), P99: 1e3 * rounds.Median(c.p99),
		ByHand:     r.ratio(c.commit, c.tasks, c.entry.name, handwritten),
		RoundTrips: r.trips[c.entry.name],
		Steps:      c.steps * int64(c.tasks),
	}
}

// ratio returns how many steps a does in the time of one step of b: the median over the rounds,
// each of which compares runs that were close together.
func (r *report) ratio(commit string, tasks int, a, b string) float64 {
	x, y := r.find(commit, tasks, a), r.find(commit, tasks, b)
	var ratios []float64
	for i := range x.rates {
		ratios = append(ratios, x.rates[i]/y.rates[i])
	}
	return rounds.Median(ratios)
}

func (r *report) find(commit string, tasks int, name string) *cell {
	for _, c := range r.cells {
		if c.commit == commit && c.tasks == tasks && c.entry.name == name {
			return c
		}
	}
	panic("no such cell: " + name)
}

// bar is a target that the measurements have to meet.
type bar struct {
	Commit string  `json:"synchronous_commit"`
	Tasks  int     `json:"tasks"`
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Want   string  `json:"want"`
	Met    bool    `json:"met"`
}

func (r *report) bars() (all []bar) {
	trips, most := r.trips[fenceOn], r.trips[handwritten]
	all = append(all, bar{
		"", 1, "round trips of a fenced step", trips,
		fmt.Sprintf("no more than by hand: %.1f", most), trips <= most+0.05,
	})
	for _, commit := range commits {
		for _, tasks := range taskCounts {
			cost := r.ratio(commit, tasks, fenceOff, fenceOn)
			ahead := r.ratio(commit, tasks, fenceOn, theQueue)
			all = append(all,
				bar{
					commit, tasks, "time with the fence / without", cost, "at most 1.10",
					cost <= 1.10,
				},
				bar{
					commit, tasks, "steps/s with the fence / of river", ahead, "above 1", ahead > 1,
				})
		}
	}
	return all
}

// published is a figure from another project, for the reader.
const published = "DBOS publishes 1-2 ms per checkpoint (500-1,000 steps/s of one task) for its " +
	"own library; not measured here."

// JSON implements the benchmark's result.
func (r *report) JSON(out io.Writer) error {
	var rows []row
	for _, c := range r.cells {
		rows = append(rows, r.row(c))
	}
	notes := map[string]string{}
	for _, e := range entries {
		notes[e.name] = e.note
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"server": r.server, "rounds": r.plan.rounds, "contenders": notes, "results": rows,
		"bars": r.bars(), "note": published,
	})
}

// Table implements the benchmark's result.
func (r *report) Table(out io.Writer) error {
	fmt.Fprintf(out, "%s. Client, guard and server share this machine. "+
		"Medians of %d rounds, in turns.\n", r.server, r.plan.rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	previous := row{}
	for _, c := range r.cells {
		row := r.row(c)
		if row.Commit != previous.Commit {
			fmt.Fprintf(w, "\nsynchronous_commit %s\n", row.Commit)
			fmt.Fprintln(w,
				"tasks\tcontender\tsteps/s\tp50 ms\tp99 ms\tsteps/s : by hand\tround trips\t")
		} else if row.Tasks != previous.Tasks {
			fmt.Fprintln(w, "\t\t\t\t\t\t\t")
		}
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.1f\t\n", row.Tasks, row.Contender,
			row.Rate, row.P50, row.P99, row.ByHand, row.RoundTrips)
		previous = row
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	return r.printBars(out)
}

func (r *report) printBars(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "bar\tsynchronous_commit\ttasks\tmeasured\twanted\t")
	for _, b := range r.bars() {
		verdict := "met"
		if !b.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%s\t%s\n",
			b.What, b.Commit, b.Tasks, b.Value, b.Want, verdict)
	}
	fmt.Fprintf(w, "\n%s\n", published)
	fmt.Fprintln(w, "Round trips are those of one task. They include the journal's notices to "+
		"standbys, which are sent apart from the steps, at most 20 a second.")
	for _, e := range entries {
		fmt.Fprintf(w, "%s: %s.\n", e.name, e.note)
	}
	return w.Flush()
}
