package scenario

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// clusterScenarios have a primary that another server replaces: of Postgres, by the lab itself or
// by Patroni, and of Redis, by Sentinel. Those with Patroni need its package, so lab run all leaves
// them out: lab run patroni has them.
var clusterScenarios = slices.Concat(promotions, byPatroni, bySentinel)

var (
	// ofStandbys has two guards that know three servers of Postgres.
	ofStandbys = twoGuards.with(func(t *Topology) { t.Cluster = Standbys })
	// ofPatroni has a guard that knows three servers, and ofPatroniTwo has two.
	ofPatroni    = small.with(func(t *Topology) { t.Cluster = Patroni })
	ofPatroniTwo = twoGuards.with(func(t *Topology) { t.Cluster = Patroni })
	// beside has a guard beside each server of Patroni, and HAProxy before them.
	beside = small.with(func(t *Topology) { t.Cluster, t.Beside, t.Guards = Patroni, true, 3 })
	// ofSentinel has three Sentinels, which the guard asks for the primary of Redis.
	ofSentinel = small.with(func(t *Topology) { t.Replica, t.Sentinels = true, true })
)

const (
	// lease is how long Patroni waits for a primary that is silent (its default), with its loop.
	lease = 40 * sec
	// frozen is longer than the lease, so that another server is the primary when one thaws.
	frozen = 45 * sec
)

// replaced is what a run has to show in which another server becomes the primary. What the old one
// had not sent yet is lost.
var replaced = expect(func(e *history.Expect) {
	e.MayLose, e.Recover = history.Duration(time.Minute), history.Duration(20*sec)
})

// byLease is the demand where Patroni waits for its lease first. Leadership may also change because
// nothing can be written for so long.
var byLease = expect(func(e *history.Expect) {
	e.MayLose, e.Settles = history.Duration(time.Minute), history.Duration(30*sec)
	e.Recover = history.Duration(lease + 20*sec)
})

// nothingLost is the demand on a change of primaries that was planned.
var nothingLost = expect(func(e *history.Expect) { e.Recover = history.Duration(20 * sec) })

var promotions = []Scenario{
	{
		Name: "postgres-promoted", Rows: []int{51},
		About: "The leader is frozen, the primary is lost and a standby is promoted; a successor " +
			"writes there before the leader wakes.",
		Topology: ofStandbys, Only: Local,
		Faults: []Fault{pauseLeader.with(
			Fault{Do: Retire, On: Postgres1}, Fault{Do: Promote, On: Postgres2})},
		Expect: replaced,
	},
	{
		Name: "postgres-promoted-twice", Rows: []int{52},
		About: "A standby is promoted, a leader writes there and is frozen, and that server is lost, " +
			"too. The other standby, which has heard nothing of it, is promoted to the same timeline.",
		Topology: ofStandbys, Only: Local,
		Faults: []Fault{
			{Do: Retire, On: Postgres1},
			{Do: Promote, On: Postgres2, Until: Written},
			pauseLeader.with(
				Fault{Do: Retire, On: Postgres2, After: sec}, Fault{Do: Promote, On: Postgres3}),
		},
		Expect: replaced,
	},
	{
		Name: "postgres-primary-returns", Rows: []int{53},
		About: "The leader is frozen, a standby is promoted, and a successor writes there. Then that " +
			"server is lost, and the old primary comes back on its older timeline.",
		Topology: ofStandbys, Only: Local,
		Faults: []Fault{
			Fault{Do: Pause, On: "leader"}.with(
				Fault{Do: Kill, On: Postgres1}.with(
					Fault{Do: Promote, On: Postgres2, Until: NextLeader},
					Fault{Do: Retire, On: Postgres2})),
		},
		Expect: replaced,
	},
}

// What happens both to guards that know all servers, and to guards beside them.
var (
	switchedOver = []Fault{
		{Do: SwitchOver, On: "postgres", For: 10 * sec, Until: Written},
		pauseLeader.with(Fault{Do: SwitchOver, On: "postgres"}),
	}
	thawed = []Fault{{Do: Pause, On: "primary", For: frozen}, pauseLeader}
)

var byPatroni = []Scenario{
	{
		Name: "patroni-switchover", Rows: []int{51},
		About: "Patroni makes another node the primary in order, while a leader writes; then again " +
			"while the leader is frozen.",
		Topology: ofPatroni, Only: Local,
		Faults: switchedOver,
		Expect: nothingLost,
	},
	{
		Name: "patroni-switchover-beside", Rows: []int{51},
		About:    "The same with a guard beside each node.",
		Topology: beside, Only: Local,
		Faults: switchedOver,
		Expect: nothingLost,
	},
	{
		Name: "patroni-postmaster-killed", Rows: []int{54},
		About: "The leader is frozen, and the first process of the primary is killed. Patroni starts " +
			"Postgres again, or another node takes over.",
		Topology: ofPatroniTwo, Only: Local,
		Faults: []Fault{pauseLeader.with(Fault{Do: Crash, On: "primary", For: 2 * sec})},
		Expect: byLease,
	},
	{
		Name: "patroni-node-killed", Rows: []int{54},
		About: "The primary's node is killed. The leader is frozen when another node has taken over, " +
			"and the old one comes back.",
		Topology: ofPatroniTwo, Only: Local,
		Faults: []Fault{
			{Do: Kill, On: "primary", For: 2 * sec, Until: Written},
			pauseLeader,
		},
		Expect: byLease,
	},
	{
		Name: "patroni-node-killed-beside", Rows: []int{54},
		About: "The leader is frozen while the primary's node is killed, with a guard beside each " +
			"node: the leader's guard is still there when it wakes, and its server is not.",
		Topology: beside, Only: Local,
		Faults: []Fault{
			Fault{Do: Kill, On: "primary"}.with(pauseLeader),
		},
		Expect: byLease,
	},
	{
		Name: "patroni-alone-killed", Rows: []int{54},
		About: "Patroni is killed, and its Postgres goes on as a primary that nobody manages, beside " +
			"the one that takes over. The leader is frozen meanwhile.",
		Topology: beside, Only: Local,
		Faults: []Fault{Fault{Do: Behead, On: "primary"}.with(pauseLeader)},
		Expect: byLease,
	},
	{
		Name: "patroni-node-frozen", Rows: []int{53},
		About: "The primary's node is frozen for longer than Patroni's lease. Another node takes over, " +
			"the leader is frozen there, and the old primary thaws.",
		Topology: ofPatroniTwo, Only: Local,
		Faults: thawed,
		Expect: byLease,
	},
	{
		Name: "patroni-node-frozen-beside", Rows: []int{53},
		About:    "The same with a guard beside each node.",
		Topology: beside, Only: Local,
		Faults: thawed,
		Expect: byLease,
	},
}

var bySentinel = []Scenario{
	{
		Name: "sentinel-failover", Rows: []int{55},
		About: "Sentinel makes the replica the primary, as planned, while the leader is frozen, and " +
			"back again.",
		Topology: ofSentinel, Only: Local,
		Faults: []Fault{
			pauseLeader.with(Fault{Do: SwitchOver, On: "redis"}),
			pauseLeader.with(Fault{Do: SwitchOver, On: "redis"}),
		},
		Expect: expect(func(e *history.Expect) { e.Changes = 3; e.MayLose = replaced.MayLose }),
	},
	{
		Name: "sentinel-primary-killed", Rows: []int{55},
		About:    "The primary is killed while the leader is frozen, and comes back as a replica.",
		Topology: ofSentinel, Only: Local,
		Faults: []Fault{Fault{Do: Kill, On: "redis"}.with(pauseLeader)},
		Expect: replaced,
	},
	{
		Name: "sentinel-primary-frozen", Rows: []int{55},
		About: "The primary is frozen, and another one has taken over when it thaws: for a moment " +
			"there are two.",
		Topology: ofSentinel, Only: Local,
		Faults: []Fault{Fault{Do: Pause, On: "redis"}.with(pauseLeader)},
		Expect: replaced,
	},
}
