package scenario

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
		Name: "coordinator-restored-and-retried", Rows: []int{16},
		About: "A leader is frozen with its sessions open, and the coordinator is restored. Leaders " +
			"try again and again, up to the frozen one's token and beyond: everybody is refused until an " +
			"operator makes it a new issuer.",
		Topology: small,
		Faults: []Fault{
			{Do: Backup, On: "coordinator"},
			// The second one has the next leader stand after the backup.
			{Do: Depose, On: "leader", Until: NextLeader, After: sec, Times: 2},
			Fault{Do: Pause, On: "leader"}.with(
				Fault{Do: Restore, On: "coordinator", For: 2 * sec},
				Fault{Do: Advance, On: "coordinator", For: sec, Until: Passed}),
			// The frozen leader has some time to write.
			Fault{Do: Kill, On: "workers", After: 500 * ms}.with(Fault{Do: Renew, On: "guard-1"}),
		},
		Expect: expect(func(e *history.Expect) {
			e.Changes, e.Refusals, e.Above = 3, []string{"RF004"}, 1
		}),
	},
	{
		Name: "session-revoked", Rows: []int{36},
		About: "An operator ends the leader's session by hand: the lease of etcd is revoked, " +
			"another connection closes the session of ZooKeeper, the row in Postgres is deleted.",
		Topology: small,
		Faults: []Fault{
			{Do: Revoke, On: "leader", Until: NextLeader},
			{Do: Revoke, On: "leader", Until: NextLeader, After: sec},
		},
		Expect: expect(func(e *history.Expect) { e.Changes = 3 }),
	},
	{
		Name: "coordinator-compacted", Rows: []int{37},
		NotOn: map[Elections]string{
			InZooKeeper: "watches of ZooKeeper have no history",
			InPostgres:  "notices of Postgres have no history",
		},
		About: "The history of etcd is compacted while all watches are broken: those who wait come " +
			"back to a revision that is gone. Then the leader is frozen.",
		// With long sessions, so that they outlive the outage, after which gRPC waits for a second.
		Topology: small.with(func(t *Topology) { t.Session, t.StoreLinks = 4*sec, true }),
		Faults: []Fault{
			Fault{Do: Break, On: "workers", Link: "coordinator", For: 300 * ms}.with(
				Fault{Do: Break, On: "guard-1", Link: "coordinator"}.
					with(Fault{Do: Compact, On: "coordinator"})),
			{Do: Pause, On: "leader", Until: NextLeader, After: 2 * sec},
		},
		Expect: expect(func(e *history.Expect) { e.MostChanges = 1 }),
	},
	{
		Name: "coordinator-member-rebuilt", Rows: []int{38}, NotOn: oneServer,
		About: "The coordinator's leader loses its disk and is replaced by an empty server (etcd: " +
			"member remove, member add); then the same happens to a follower.",
		Topology: ensemble,
		Faults: []Fault{
			{Do: Lose, On: "coordinator leader", For: 2 * sec},
			{Do: Lose, On: "coordinator follower", For: sec, After: 2 * sec},
			pauseLeader,
		},
		Expect: demand,
	},
	{
		Name: "coordinator-failed-over", Rows: []int{39}, NotOn: noStandby,
		About: "The primary that holds the elections is lost with the latest enrolments, and the " +
			"standby that is promoted has never heard of them.",
		Topology: small.with(func(t *Topology) { t.Standby = true }),
		Faults: []Fault{
			{Do: Lag, On: "coordinator"},
			pauseLeader,
			{Do: Depose, On: "leader", Until: NextLeader, After: 300 * ms},
			Fault{Do: Retire, On: "coordinator leader", For: 3 * sec, Until: Written}.
				with(Fault{Do: Promote, On: "coordinator"}),
		},
		Expect: expect(func(e *history.Expect) { e.Changes = 4 }),
	},
	{
		Name: "coordinator-split", Rows: []int{39}, NotOn: noStandby,
		About: "The old primary comes back after a failover, and two servers name leaders until it " +
			"is ended. The leader is frozen meanwhile.",
		Topology: small.with(func(t *Topology) { t.Standby = true }),
		Faults: []Fault{
			Fault{Do: Kill, On: "coordinator leader", For: 3 * sec, Until: Written}.
				with(Fault{Do: Promote, On: "coordinator"}),
			{Do: Pause, On: "leader", For: 5 * sec},
			{Do: Retire, On: "coordinator leader"},
		},
		Expect: demand,
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
