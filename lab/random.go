package lab

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// defaultMix is how long a random scenario lasts by default.
const defaultMix = 30 * time.Second

// randomFaults are the faults that a random scenario draws from. Faults that change the meaning of
// marks (a wiped coordinator) need an operator, and have separate scenarios.
var randomFaults = []Fault{
	pauseLeader,
	{Do: Pause, On: "leader", For: 500 * ms},
	{Do: Stop, On: "leader", Until: NextLeader},
	{Do: Kill, On: "leader", Until: NextLeader},
	{Do: Cut, On: "leader", Link: "coordinator", Until: NextLeader},
	{Do: Cut, On: "leader", Link: "guard", Until: NextLeader},
	{Do: Hold, On: "leader", Link: "coordinator", Direction: "up", Until: NextLeader},
	{Do: Hold, On: "leader", Link: "coordinator", Direction: "down", Until: NextLeader},
	Fault{Do: Hold, On: "leader", Link: "guard", Direction: "up", Until: NextLeader}.
		with(Fault{Do: Depose, On: "leader", After: 200 * ms}),
	Fault{Do: Inside, On: "leader"}.with(pauseLeader),
	Fault{Do: Pause, On: "guard of leader", For: 2 * sec}.
		with(Fault{Do: Depose, On: "leader", After: 200 * ms}),
	{Do: Kill, On: "guard of leader", For: 500 * ms},
	{Do: Kill, On: "postgres", For: 300 * ms},
	{Do: Pause, On: "postgres", For: 1200 * ms},
	{Do: Restart, On: "postgres"},
	{Do: Kill, On: "redis", For: 300 * ms},
	{Do: Pause, On: "redis", For: 1200 * ms},
	{Do: Kill, On: "coordinator leader", For: sec},
	{Do: Pause, On: "coordinator follower", For: 2 * sec},
	{Do: Kill, On: "coordinator majority", For: sec},
	{Do: Slow, On: "leader", Link: "coordinator", Delay: 100 * ms, Loss: 0.1, For: 2 * sec},
	{Do: Depose, On: "leader", Until: NextLeader},
	{Do: Revoke, On: "leader", Until: NextLeader},
}

// random injects random faults until the time is over. A third of them have a second one inside.
func (r *run) random(ctx context.Context) error {
	end := time.Now().Add(cmp.Or(r.o.Time, defaultMix))
	for time.Now().Before(end) && ctx.Err() == nil {
		f := r.draw()
		if another := r.rnd.IntN(3) == 0; another && !(r.Workload.Kind == Jobs && f.On == "postgres") {
			f.Then = append(f.Then[:len(f.Then):len(f.Then)], r.drawServer(f.On))
		}
		if err := r.inject(ctx, []Fault{f}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (r *run) draw() Fault {
	possible := randomFaults
	if r.Workload.Kind == Jobs {
		possible = randomJobFaults
	}
	if len(r.Topology.CoordinatorNames()) == 1 {
		possible = slices.DeleteFunc(slices.Clone(possible), func(f Fault) bool {
			return f.On == "coordinator follower"
		})
	}
	f := possible[r.rnd.IntN(len(possible))]
	f.After = time.Duration(200+r.rnd.IntN(800)) * ms
	return f
}

// drawServer draws a fault of a database other than the given target. It can happen inside any
// other fault, because it names no role: while the coordinator is down, nobody knows who leads.
func (r *run) drawServer(not string) Fault {
	for {
		if f := r.draw(); (f.On == "postgres" || f.On == "redis") && f.On != not {
			return f
		}
	}
}
