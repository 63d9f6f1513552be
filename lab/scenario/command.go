package scenario

import "github.com/ringfence/ringfence/lab/history"

// commandScenarios has the faults of leader run and of its child.
var commandScenarios = []Scenario{
	{
		Name: "leader-run-beheaded", Rows: []int{22},
		Only: Local, // when a container's first process ends, all its processes end
		About: "leader run is killed with -9 and cannot end its child: the guard refuses the " +
			"child, which lives on.",
		Topology: small, Workload: Workload{Kind: Commands},
		Faults: []Fault{{Do: Behead, On: "leader", Until: NextLeader}}, Expect: oneStale,
	},
	{
		Name: "leader-run-stopped", Rows: []int{22},
		About: "leader run is stopped but its child is not: the child keeps writing under a term " +
			"that is over.",
		Topology: small, Workload: Workload{Kind: Commands},
		Faults: []Fault{{Do: Stop, On: "leader", Until: NextLeader}}, Expect: oneStale,
	},
	{
		Name: "leader-run-deaf-child", Rows: []int{22},
		About:    "The leader is deposed and its child ignores SIGTERM.",
		Topology: small, Workload: Workload{Kind: Commands, Child: "ignore-term"},
		Faults: []Fault{{Do: Depose, On: "leader", Until: NextLeader}}, Expect: oneStale,
	},
	{
		Name: "leader-run-forking-child", Rows: []int{22},
		About: "When the leader is deposed, the child of leader run has a child that does the " +
			"writing.",
		Topology: small, Workload: Workload{Kind: Commands, Child: "fork"},
		Faults: []Fault{{Do: Depose, On: "leader", Until: NextLeader}}, Expect: oneStale,
	},
	{
		Name: "leader-run-log-stuck", Rows: []int{47},
		About: "The log of leader run is a pipe that is full and that nothing reads. Its leader is " +
			"deposed; then no worker reaches the coordinator. leader run must stop its command " +
			"itself: without a successor, no guard refuses the command.",
		Topology: withLogPipes, Workload: Workload{Kind: Commands},
		Only: Local, // the lab reads the log
		Faults: []Fault{
			Fault{Do: Clog, On: "leader", Until: NextLeader}.with(deposeSoon),
			Fault{Do: Clog, On: "leader", After: sec}.
				with(Fault{Do: Cut, On: "workers", Link: "coordinator", Until: GivenUp}),
		},
		Expect: expect(func(e *history.Expect) {
			e.Changes, e.Stale, e.StepDown = 3, 1, history.Duration(1500*ms)
		}),
	},
}
