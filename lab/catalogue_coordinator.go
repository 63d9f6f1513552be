package lab

import (
	"github.com/ringfence/ringfence/lab/history"
)

// coordinatorScenarios has the faults of the coordinator, whichever it is.
var coordinatorScenarios = []Scenario{
	{
		Name: "coordinator-follower-killed", Rows: []int{15}, NotOn: oneServer,
		About:    "One server of the coordinator, a follower, is killed and comes back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "coordinator follower", For: 2 * sec}},
		Expect: finalOnly,
	},
	{
		Name: "coordinator-leader-killed", Rows: []int{15}, NotOn: oneServer,
		About:    "The coordinator's leader is killed and comes back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "coordinator leader", For: 3 * sec}},
		Expect: finalOnly,
	},
	{
		Name: "coordinator-majority-killed", Rows: []int{15}, NotOn: oneServer,
		About:    "Two of three servers are killed: nobody can be elected until they are back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "coordinator majority", For: 3 * sec}},
		Expect: afterOutage,
	},
	{
		Name: "coordinator-killed", Rows: []int{15},
		About:    "The whole coordinator is killed, and comes back with its data.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "coordinator", For: sec}},
		Expect: afterOutage,
	},
	{
		Name: "coordinator-paused", Rows: []int{15},
		About:    "The whole coordinator is frozen for longer than a session.",
		Topology: ensemble, Faults: []Fault{{Do: Pause, On: "coordinator", For: 2500 * ms}},
		Expect: afterOutage,
	},
	{
		Name: "coordinator-wiped", Rows: []int{16},
		About: "The coordinator loses all its data and counts from the start: everybody is refused " +
			"until an operator adopts it.",
		Topology: small,
		Faults:   []Fault{{Do: Wipe, On: "coordinator", For: 4 * sec}, {Do: Adopt, On: "guard-1"}},
		Expect: expect(func(e *history.Expect) {
			e.Refusals, e.Stale = []string{"RF004"}, 1
		}),
	},
	{
		Name: "coordinator-restored", Rows: []int{16},
		About: "The coordinator is restored from a backup and issues tokens below the mark: everybody " +
			"is refused until an operator makes it a new issuer.",
		Topology: small,
		Faults: []Fault{
			{Do: Backup, On: "coordinator"},
			pauseLeader,
			// So that the leader has a token that the backup does not know.
			{Do: Depose, On: "leader", Until: NextLeader, After: sec},
			{Do: Restore, On: "coordinator", For: 4 * sec},
			// Nobody leads meanwhile.
			Fault{Do: Kill, On: "workers"}.with(Fault{Do: Renew, On: "guard-1"}),
		},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Refusals = 3, []string{"RF004"} }),
	},
	{
		Name: "slow-coordinator", Rows: []int{17},
		About: "The leader's link to the coordinator has a delay of 300 ms and loses a tenth of " +
			"its packets.",
		Topology: small.with(func(t *Topology) { t.Session = 2 * sec }),
		Faults: []Fault{{
			Do: Slow, On: "leader", Link: "coordinator", Delay: 150 * ms, Loss: 0.1, For: 8 * sec,
		}},
		Expect: fewChanges,
	},
}
