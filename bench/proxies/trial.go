package proxies

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// trial measures one row, or some that one measurement fills.
type trial struct {
	name  string
	round func(ctx context.Context, turn []*ways.Way) error // measures each way once, in this order
}

// outcome is one measurement of one way.
type outcome struct {
	value      float64
	operations float64
}

// each is a trial that measures one way after the other.
func each(
	row *report.Row, measure func(ctx context.Context, w *ways.Way) (outcome, error),
) trial {
	return trial{name: row.Name, round: func(ctx context.Context, turn []*ways.Way) error {
		for _, w := range turn {
			before, _ := w.CPU()
			o, err := measure(ctx, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			row.Add(w.Name, o.value)
			if after, ok := w.CPU(); ok {
				row.AddCPU(w.Name, perOperation(after-before, o.operations))
			}
		}
		return nil
	}}
}

// perOperation returns microseconds.
func perOperation(cpu time.Duration, operations float64) float64 {
	return cpu.Seconds() * 1e6 / operations
}

// runTrials runs all rounds. In each round every trial measures all ways, one soon after the other.
func runTrials(
	ctx context.Context, trials []trial, all []*ways.Way, n int, progress io.Writer,
) error {
	if len(trials) == 0 {
		return fmt.Errorf("no row has such a name")
	}
	for round := range n {
		for _, t := range trials {
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, n, t.name)
			if err := t.round(ctx, rounds.Turn(all, round)); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	return nil
}
