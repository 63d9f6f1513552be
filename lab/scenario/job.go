package scenario

import (
	"github.com/ringfence/ringfence/lab/history"
)

// threeWorkers is enough for most scenarios about jobs.
var threeWorkers = small.with(func(t *Topology) { t.Workers = 3 })

// fiveWorkers are for random faults. compose.yaml has three, so these scenarios are local only.
var fiveWorkers = small.with(func(t *Topology) { t.Workers, t.Guards = 5, 2 })

// jobWork is what workers do in scenarios about jobs. The steps of a job take long enough for a
// fault to hit some of them.
var jobWork = Workload{Kind: Jobs, Pause: 40 * ms}

func (w Workload) with(change func(*Workload)) Workload {
	change(&w)
	return w
}

// FrozenInside freezes a worker that is inside a transaction of a job, until others have its jobs.
// When it wakes, it goes on inside that transaction.
var FrozenInside = Fault{Do: Inside, On: "busy worker"}.
	with(Fault{Do: Pause, On: SameTarget, Until: HandedOver})

// job is the demand on a run about jobs. A change of leadership is a job that runs again.
//
// A fault that ends a worker's session costs JobCapacity runs. MostTakenBack allows twice that, for
// sessions that a busy machine ends.
func job(change func(*history.Expect)) history.Expect {
	e := history.Expect{
		Changes: 2, Stale: 1, Before: 50, Jobs: 50, TakenBack: 2, Late: 1,
		Recover: history.Duration(10 * sec),
	}
	change(&e)
	return e
}

// jobScenarios has the faults of workers with jobs, and of the assigner.
var jobScenarios = []Scenario{
	{
		Name: "job-worker-killed", Rows: []int{19},
		About: "Workers are killed while they run jobs: others run these again, and each step has " +
			"its effect once.",
		Topology: threeWorkers, Workload: jobWork,
		Faults: []Fault{{Do: Kill, On: "busy worker", Until: HandedOver, Times: 2}},
		Expect: job(func(e *history.Expect) { e.Kills, e.MostTakenBack = 2, 6*JobCapacity }),
	},
	{
		Name: "job-worker-paused", Rows: []int{19},
		About: "A worker is frozen inside a transaction of a job; when it wakes, another one has " +
			"the job, and it goes on and publishes its result.",
		Topology: threeWorkers, Workload: jobWork,
		Faults: []Fault{FrozenInside},
		Expect: job(func(e *history.Expect) { e.MostTakenBack = 4 * JobCapacity }),
	},
	{
		Name: "job-worker-cut", Rows: []int{19},
		About: "A worker is cut off from the coordinator, and others get its jobs; later it is cut " +
			"off from its guard.",
		Topology: threeWorkers, Workload: jobWork,
		Faults: []Fault{
			{Do: Cut, On: "busy worker", Link: "coordinator", Until: HandedOver},
			{Do: Cut, On: "busy worker", Link: "guard", For: 2 * sec, After: sec},
		},
		Expect: job(func(e *history.Expect) { e.MostTakenBack = 4 * JobCapacity }),
	},
	{
		Name: "job-assigner-killed", Rows: []int{20},
		About: "The worker that assigns jobs is killed before an assignment, after one, and at any " +
			"time: no job is lost or runs twice.",
		Topology: threeWorkers,
		Workload: jobWork.with(func(w *Workload) {
			w.Failpoints = map[string]string{
				"worker-1": "after assign:6", "worker-2": "before assign:6",
				"worker-3": "after assign:4",
			}
		}),
		Faults: []Fault{ // all failpoints were reached by then
			{Do: Kill, On: "assigner", Until: NextAssigner, After: 5 * sec},
			{Do: Kill, On: "assigner", Until: NextAssigner, After: sec},
		},
		Expect: job(func(e *history.Expect) { e.Kills = 5 }),
	},
	{
		Name: "job-assigner-killed-taking-back", Rows: []int{19, 20},
		About: "A worker is killed, and then the one that takes its jobs back: before that, after " +
			"that, and again. No job is lost or runs twice.",
		Topology: threeWorkers,
		Workload: jobWork.with(func(w *Workload) {
			w.Failpoints = map[string]string{
				"worker-1": "before take back:1", "worker-2": "after take back:1",
				"worker-3": "before take back:1",
			}
		}),
		Faults: []Fault{{Do: Kill, On: "busy worker", Until: HandedOver, After: sec, Times: 4}},
		Expect: job(func(e *history.Expect) { e.Kills = 5 }),
	},
	{
		Name: "job-assigned-late", Rows: []int{20},
		About: "The answer to an assignment is lost. Its worker leaves, and is forgotten. Then the " +
			"assignment arrives. No job waits for a worker that nobody remembers.",
		Topology: threeWorkers,
		Workload: jobWork.with(func(w *Workload) {
			w.Failpoints = map[string]string{"worker-1": "late assign:3", "worker-2": "late assign:3"}
		}),
		// If worker-3 assigns at first, it does not the second time.
		Faults: []Fault{{Do: Restart, On: "worker-3", For: 4 * sec, After: 3 * sec, Times: 2}},
		Expect: job(func(e *history.Expect) { e.Unanswered = 1 }),
	},
	{
		Name: "job-assigners-in-a-loop", Rows: []int{20},
		About: "The worker that assigns jobs is frozen past its session, again and again: one that " +
			"wakes assigns nothing and takes nothing back.",
		Topology: threeWorkers, Workload: jobWork,
		Faults: []Fault{{Do: Pause, On: "assigner", Until: NextAssigner, After: 500 * ms, Times: 4}},
		Expect: job(nothing),
	},
	{
		Name: "job-coordinator-restarted", Rows: []int{19, 20},
		About: "The coordinator is restarted, and then killed and started again, while jobs are " +
			"submitted and run.",
		Topology: threeWorkers,
		Workload: jobWork.with(func(w *Workload) { w.Strategy = "round-robin" }),
		Faults: []Fault{
			{Do: Restart, On: "coordinator", For: 300 * ms},
			{Do: Kill, On: "coordinator", For: 300 * ms, After: 2 * sec},
		},
		Expect: job(func(e *history.Expect) {
			e.Changes, e.TakenBack, e.Spread, e.Recover = 1, 1, 40, history.Duration(20*sec)
		}),
	},
	{
		Name: "job-all-workers-gone", Rows: []int{21},
		About: "All workers are killed, and come back: what was submitted meanwhile waits, and what " +
			"they ran runs again.",
		Topology: threeWorkers, Workload: jobWork,
		Faults: []Fault{{Do: Kill, On: "workers", For: 2500 * ms}},
		Expect: job(func(e *history.Expect) { e.Kills = 3 }),
	},
	{
		Name: "job-random-mix", Rows: []int{19, 20, 25},
		About: "Five workers, 1,000 jobs (--jobs), and faults drawn from the seed for the time given " +
			"(--time).",
		Topology: fiveWorkers, Only: Local, Random: true,
		Workload: jobWork.with(func(w *Workload) { w.Jobs, w.Strategy = 1000, "random" }),
		Expect: job(func(e *history.Expect) {
			e.Spread, e.Recover = 20, history.Duration(20*sec)
		}),
	},
	{
		Name: "job-cancelled-and-retried", Rows: []int{19, 20, 25},
		About: "Faults as in job-random-mix, while three clients race for unique keys, cancel jobs " +
			"that wait or run, and retry some that have ended; other jobs repeat.",
		Topology: fiveWorkers, Only: Local, Random: true,
		Workload: jobWork.with(func(w *Workload) { w.Jobs, w.Clients = 400, 3 }),
		Expect: job(func(e *history.Expect) {
			e.Cancelled, e.Retried, e.Shared, e.Rounds = 40, 20, 40, 20
			e.Recover = history.Duration(20 * sec)
		}),
	},
}

// RandomJobFaults are the faults that a random scenario about jobs draws from.
var RandomJobFaults = []Fault{
	{Do: Pause, On: "busy worker", Until: HandedOver},
	{Do: Pause, On: "busy worker", For: 500 * ms},
	{Do: Stop, On: "busy worker", Until: HandedOver},
	{Do: Kill, On: "busy worker", Until: HandedOver},
	{Do: Restart, On: "busy worker"},
	{Do: Cut, On: "busy worker", Link: "coordinator", Until: HandedOver},
	{Do: Cut, On: "busy worker", Link: "guard", For: 1500 * ms},
	{Do: Hold, On: "busy worker", Link: "coordinator", Direction: "up", Until: HandedOver},
	{Do: Hold, On: "busy worker", Link: "coordinator", Direction: "down", Until: HandedOver},
	FrozenInside,
	{Do: Kill, On: "assigner", Until: NextAssigner},
	{Do: Pause, On: "assigner", Until: NextAssigner},
	{Do: Cut, On: "assigner", Link: "coordinator", Until: NextAssigner},
	{Do: Kill, On: "guard-1", For: 500 * ms},
	{Do: Kill, On: "postgres", For: 300 * ms},
	{Do: Pause, On: "postgres", For: 1200 * ms},
	{Do: Kill, On: "coordinator leader", For: 500 * ms},
	{Do: Pause, On: "coordinator leader", For: 600 * ms},
	{Do: Slow, On: "busy worker", Link: "coordinator", Delay: 100 * ms, Loss: 0.1, For: 2 * sec},
}
