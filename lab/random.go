package lab

import (
	"context"
	"time"
)

// defaultMix is how long a random scenario goes on when nobody says so.
const defaultMix = 30 * time.Second

// menu is what a random scenario draws from. What changes what the marks mean (a wiped coordinator) is not on it: it needs an
// operator, and has a scenario of its own.
var menu = []Fault{
	{Do: Pause, On: "leader", Until: NextLeader},
	{Do: Pause, On: "leader", For: 500 * ms},
	{Do: Stop, On: "leader", Until: NextLeader},
	{Do: Kill, On: "leader", Until: NextLeader},
	{Do: Cut, On: "leader", Link: "coordinator", Until: NextLeader},
	{Do: Cut, On: "leader", Link: "guard", Until: NextLeader},
	{Do: Hold, On: "leader", Link: "coordinator", Direction: "up", Until: NextLeader},
	{Do: Hold, On: "leader", Link: "coordinator", Direction: "down", Until: NextLeader},
	{Do: Hold, On: "leader", Link: "guard", Direction: "up", With: []Fault{{Do: Depose, On: "leader", After: 200 * ms}}, Until: NextLeader},
	{Do: Inside, On: "leader", With: []Fault{{Do: Pause, On: "leader", Until: NextLeader}}},
	{Do: Pause, On: "guard of leader", With: []Fault{{Do: Depose, On: "leader", After: 200 * ms}}, For: 2 * sec},
	{Do: Kill, On: "guard of leader", For: 500 * ms},
	{Do: Kill, On: "postgres", For: 300 * ms},
	{Do: Pause, On: "postgres", For: 1200 * ms},
	{Do: Restart, On: "postgres"},
	{Do: Kill, On: "redis", For: 300 * ms},
	{Do: Pause, On: "redis", For: 1200 * ms},
	{Do: Kill, On: "zookeeper leader", For: sec},
	{Do: Pause, On: "zookeeper follower", For: 2 * sec},
	{Do: Kill, On: "zookeeper majority", For: sec},
	{Do: Slow, On: "leader", Link: "coordinator", Delay: 100 * ms, Loss: 0.1, For: 2 * sec},
	{Do: Depose, On: "leader", Until: NextLeader},
}

// random draws faults until the time is over. A third of them has a second one within.
func (r *run) random(ctx context.Context) error {
	end := time.Now().Add(max(r.o.Time, 0))
	if r.o.Time == 0 {
		end = time.Now().Add(defaultMix)
	}
	for time.Now().Before(end) && ctx.Err() == nil {
		f := r.draw()
		if r.rnd.IntN(3) == 0 {
			f.Then = append(f.Then[:len(f.Then):len(f.Then)], r.drawServer(f.On))
		}
		if err := r.inject(ctx, []Fault{f}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (r *run) draw() Fault {
	f := menu[r.rnd.IntN(len(menu))]
	f.After = time.Duration(200+r.rnd.IntN(800)) * ms
	return f
}

// drawServer draws one that hits another database for a while. It can happen within any other fault, for it names no role: while
// ZooKeeper is down, nobody can tell who leads.
func (r *run) drawServer(besides string) Fault {
	for {
		if f := r.draw(); (f.On == "postgres" || f.On == "redis") && f.On != besides {
			return f
		}
	}
}
