package scenario

import (
	"github.com/ringfence/ringfence/lab/history"
)

// taskScenarios has the faults of a task, whose fence is in its journal.
var taskScenarios = []Scenario{
	{
		Name: "killed-mid-step", Rows: []int{7},
		About:    "Leaders of a task are killed before an effect, before a checkpoint and after it.",
		Topology: small.with(func(t *Topology) { t.Workers = 3 }),
		Workload: Workload{Kind: Tasks, Failpoints: map[string]string{
			"worker-1": "before effect:41", "worker-2": "before publish:31",
			"worker-3": "after publish:21",
		}},
		Faults: []Fault{{Do: Kill, On: "leader", Until: NextLeader, After: 3 * sec, Times: 2}},
		Expect: task(func(e *history.Expect) { e.Kills = 2 }),
	},
	{
		Name: "killed-before-publish", Rows: []int{8},
		About: "Leaders are killed between the effect of an asynchronous step and its checkpoint: " +
			"the step is run again, with the same key.",
		Topology: small,
		Workload: Workload{Kind: Tasks, Failpoints: map[string]string{
			"worker-1": "after effect:32", "worker-2": "after effect:26",
		}},
		Faults: []Fault{{Do: Kill, On: "leader", Until: NextLeader, After: 3 * sec}},
		Expect: task(func(e *history.Expect) { e.Kills = 1 }),
	},
	{
		Name: "task-leader-paused", Rows: []int{1, 7},
		About: "The leader of a task is frozen in the middle of it; when it wakes, its successor " +
			"has continued.",
		Topology: small, Workload: Workload{Kind: Tasks}, Faults: []Fault{pauseLeader},
		Expect: task(nothing),
	},
	{
		Name: "postgres-killed-in-a-task", Rows: []int{12},
		About: "The same under a task: a COMMIT whose answer was lost is read back, and each " +
			"effect is there once.",
		Topology: small, Workload: Workload{Kind: Tasks},
		Faults: []Fault{
			{Do: Kill, On: "postgres", For: 500 * ms},
			{Do: Pause, On: "postgres", For: 1500 * ms, After: 2 * sec},
		},
		Expect: task(func(e *history.Expect) { e.Changes = 1 }),
	},
	{
		Name: "stale-prefetch", Rows: []int{23},
		About: "A standby learns of checkpoints late, and takes over: what it has read ahead is " +
			"compared before its first write.",
		Topology: small, Workload: Workload{Kind: Tasks},
		Faults: []Fault{
			Fault{Do: Slow, On: "standby", Link: "journal", Delay: 150 * ms}.
				with(Fault{Do: Kill, On: "leader", After: 2 * sec, Until: NextLeader}),
		},
		Expect: task(nothing),
	},
	{
		Name: "publish-forged", Rows: []int{33},
		About: "A deposed leader publishes a checkpoint with the setting of an entered " +
			"transaction, without having entered.",
		Topology: small, Workload: Workload{Kind: Tasks},
		Faults: []Fault{pauseLeader.then(Fault{Do: Stray, On: "postgres", By: ByForgery})},
		Expect: task(nothing),
	},
}
