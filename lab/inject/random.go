package inject

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/scenario"
)

// defaultMix is how long a random scenario lasts by default.
const defaultMix = 30 * time.Second

// Random injects random faults until the time is over. A third of them have a second one inside.
func (r *Injector) Random(ctx context.Context) error {
	end := time.Now().Add(cmp.Or(r.Time, defaultMix))
	for time.Now().Before(end) && ctx.Err() == nil {
		f := r.draw()
		onlyPostgres := r.Workload.Kind == scenario.Jobs || r.Topology.Route == scenario.SQL
		if another := r.rnd.IntN(3) == 0; another && !(onlyPostgres && f.On == "postgres") {
			f.Then = append(f.Then[:len(f.Then):len(f.Then)], r.drawServer(f.On))
		}
		if err := r.Inject(ctx, []scenario.Fault{f}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (r *Injector) draw() scenario.Fault {
	possible := scenario.RandomFaults
	if r.Workload.Kind == scenario.Jobs {
		possible = scenario.RandomJobFaults
	}
	if len(r.Topology.CoordinatorNames()) == 1 {
		possible = slices.DeleteFunc(slices.Clone(possible), func(f scenario.Fault) bool {
			return f.On == "coordinator follower"
		})
	}
	if r.Topology.Route == scenario.SQL {
		possible = slices.DeleteFunc(slices.Clone(possible), func(f scenario.Fault) bool {
			return !f.OverSQL()
		})
	}
	f := possible[r.rnd.IntN(len(possible))]
	f.After = time.Duration(200+r.rnd.IntN(800)) * time.Millisecond
	return f
}

// drawServer draws a fault of a database other than the given target. It can happen inside any
// other fault, because it names no role: while the coordinator is down, nobody knows who leads.
func (r *Injector) drawServer(not string) scenario.Fault {
	for {
		if f := r.draw(); (f.On == "postgres" || f.On == "redis") && f.On != not {
			return f
		}
	}
}
