package scenario

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// leaderScenarios has the faults of leaders and of their links.
var leaderScenarios = []Scenario{
	{
		Name: "leader-paused", Rows: []int{1},
		About: "The leader is frozen past its session, another one takes over, and the first one " +
			"wakes and keeps writing.",
		Topology: small, Faults: []Fault{pauseLeader}, Expect: demand,
	},
	{
		Name: "leader-paused-embedded", Rows: []int{1},
		About: "The same without a guard: each transaction and each script carries the token " +
			"itself.",
		Topology: withoutGuards, Faults: []Fault{pauseLeader}, Expect: demand,
	},
	{
		Name: "leader-stopped", Rows: []int{2},
		About:    "Only the leader's program is stopped (SIGSTOP); processes that it started run on.",
		Topology: small, Faults: []Fault{{Do: Stop, On: "leader", Until: NextLeader}},
		Expect: demand,
	},
	{
		Name: "leader-cut-from-coordinator", Rows: []int{3},
		About: "The leader reaches the guard but not the coordinator: it must step down by its " +
			"own clock.",
		Topology: small,
		Faults:   []Fault{{Do: Cut, On: "leader", Link: "coordinator", Until: NextLeader}},
		Expect:   expect(func(e *history.Expect) { e.StepDown = history.Duration(1500 * ms) }),
	},
	{
		Name: "leader-cut-from-guard", Rows: []int{4},
		About: "The leader keeps its session but reaches no guard: its own health check makes it " +
			"resign.",
		Topology: small, Workload: Workload{Health: 1500 * ms},
		Faults: []Fault{{Do: Cut, On: "leader", Link: "guard", Until: NextLeader}},
		Expect: oneStale,
	},
	{
		Name: "one-way-loss", Rows: []int{5},
		About: "What the leader sends does not reach the coordinator; later, what the coordinator " +
			"answers does not reach the leader.",
		Topology: small,
		Faults: []Fault{
			{Do: Hold, On: "leader", Link: "coordinator", Direction: "up", Until: NextLeader},
			{
				Do: Hold, On: "leader", Link: "coordinator", Direction: "down", Until: NextLeader,
				After: sec,
			},
		},
		Expect: expect(func(e *history.Expect) { e.Changes = 3 }),
	},
	{
		Name: "old-write-in-flight", Rows: []int{6},
		About: "Nobody is paused: a write is in flight while the leader is deposed, and arrives " +
			"after its successor has written.",
		Topology: small,
		Faults: []Fault{
			Fault{Do: Hold, On: "leader", Link: "guard", Direction: "up", Until: NextLeader}.
				with(deposeSoon),
		},
		Expect: demand,
	},
	{
		Name: "paused-inside-transaction", Rows: []int{13},
		About: "The leader is frozen inside an open transaction that has locked a row which its " +
			"successor needs.",
		Topology: small,
		Faults:   []Fault{Fault{Do: Inside, On: "leader"}.with(pauseLeader)}, Expect: demand,
	},
	{
		Name: "paused-inside-transaction-embedded", Rows: []int{13},
		About:    "The same without a guard.",
		Topology: withoutGuards,
		Faults:   []Fault{Fault{Do: Inside, On: "leader"}.with(pauseLeader)}, Expect: demand,
	},
	{
		Name: "flapping-pauses", Rows: []int{18},
		About:    "The leader is frozen again and again, each time for less than its session.",
		Topology: small,
		Faults:   []Fault{{Do: Pause, On: "leader", For: 350 * ms, After: 350 * ms, Times: 8}},
		Expect:   fewChanges,
	},
	{
		Name: "clock-jump", Rows: []int{24},
		About: "The leader's wall clock jumps an hour ahead (injected): its term uses the " +
			"monotonic clock and continues.",
		Topology: small, Workload: Workload{ClockJump: time.Hour},
		Faults: []Fault{{Do: Jump, On: "leader", For: 3 * sec}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale, e.MostChanges = 1, 1, -1 }),
	},
}
