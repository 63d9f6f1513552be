package scenario

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// storeScenarios has the faults of Postgres and Redis: outages, lost marks, locks.
var storeScenarios = []Scenario{
	{
		Name: "postgres-killed", Rows: []int{12},
		About: "Postgres is killed under load and recovers; later it is frozen for a while; then " +
			"it is restarted in order.",
		Topology: small,
		Faults: []Fault{
			{Do: Kill, On: "postgres", For: 500 * ms},
			{Do: Pause, On: "postgres", For: 1500 * ms, After: 1500 * ms},
			{Do: Restart, On: "postgres", After: sec},
		},
		Expect: finalOnly,
	},
	{
		Name: "redis-killed", Rows: []int{14},
		About: "Redis is killed with an append-only file that is synced once a second, and " +
			"restarted; then an old leader wakes.",
		Topology: small.with(func(t *Topology) { t.RedisFsync = "everysec" }),
		Faults:   []Fault{pauseLeader.then(Fault{Do: Kill, On: "redis", For: 500 * ms})},
		Expect:   expect(func(e *history.Expect) { e.MayLose = history.Duration(2500 * ms) }),
	},
	{
		Name: "redis-switched-over-and-back", Rows: []int{27},
		About: "The leader's connection to Redis stays open while the replica becomes the " +
			"primary, takes a successor's writes, and becomes the replica again.",
		Topology: small.with(func(t *Topology) { t.StoreLinks, t.Replica = true, true }),
		Faults: []Fault{
			pauseLeader.with(Fault{Do: SwitchOver, On: "redis"}).
				then(Fault{Do: SwitchOver, On: "redis", For: sec, Until: Written}),
		},
		Expect: demand,
	},
	{
		Name: "redis-changes-places-twice", Rows: []int{27},
		About: "The same with two guards and no coordinator, and the older leader writes on its open " +
			"connection before the successor, who has the other guard, comes back.",
		Topology: twoGuards.with(func(t *Topology) {
			t.StoreLinks, t.Replica, t.Coordinator = true, true, NoCoordinator
			t.Session = 5 * sec // the servers have changed places before the next leader comes
		}),
		Faults: []Fault{
			Fault{Do: Stay, On: "guard of leader"}.with(
				pauseLeader.with(Fault{Do: SwitchOver, On: "redis"}).then(
					Fault{Do: Pause, On: "leader"}.with(
						Fault{Do: SwitchOver, On: "redis"},
						Fault{Do: Stray, On: "redis", By: ByStaying}))),
		},
		Expect: demand,
	},
	{
		Name: "redis-forked", Rows: []int{49},
		About: "A session of the leader asks Redis for the debugger of scripts: Redis forks, and the " +
			"child has the connection and a copy of the data. After a successor has written, it copies " +
			"its own over that.",
		Topology: small,
		Faults: []Fault{Fault{Do: Fork, On: "guard of leader"}.with(
			pauseLeader.then(Fault{Do: Stray, On: "redis", By: ByFork}))},
		Expect: demand,
	},
	{
		Name: "marks-restored", Rows: []int{28},
		About: "Marks that were dumped under the leader are restored after its successor has " +
			"written: the old mark is the leader's own.",
		Topology: small,
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Backup, On: OnlyMarks}).
				then(Fault{Do: Restore, On: OnlyMarks}),
		},
		Expect: demand,
	},
	{
		Name: "marks-restored-embedded", Rows: []int{28},
		About:    "The same without a guard: each transaction checks only the marks.",
		Topology: withoutGuards,
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Backup, On: OnlyMarks}).
				then(Fault{Do: Restore, On: OnlyMarks}),
		},
		Expect: demand,
	},
	{
		Name: "postgres-set-back", Rows: []int{28},
		About: "A disk snapshot of Postgres, taken under the leader, is restored after its " +
			"successor has written.",
		Topology: small,
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Backup, On: "postgres"}).
				then(Fault{Do: Restore, On: "postgres"}),
		},
		Expect: expect(func(e *history.Expect) { e.MayLose = history.Duration(time.Minute) }),
	},
	{
		Name: "postgres-set-back-without-coordinator", Rows: []int{43},
		About: "The same without a coordinator, and the deposed leader comes first. A standby that " +
			"was promoted by deleting standby.signal has such a disk: only the guard knows the " +
			"successor's mark.",
		Topology: small.with(func(t *Topology) { t.Coordinator = NoCoordinator }),
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Backup, On: "postgres"}).
				then(Fault{Do: Pause, On: "leader"}.then(
					Fault{Do: Restore, On: "postgres"},
					Fault{Do: Stray, On: "guard-1", By: ByReturning})),
		},
		Expect: expect(func(e *history.Expect) { e.MayLose = history.Duration(time.Minute) }),
	},
	{
		Name: "texts-sorted-anew", Rows: []int{50},
		About: "While both leaders are frozen, an upgrade of the operating system restarts the guard " +
			"and Postgres, and the new C library sorts texts in another order. An index in that order " +
			"would no longer find all its rows. The deposed leader comes first.",
		Topology: small.with(func(t *Topology) {
			t.OwnLocale, t.Coordinator = true, NoCoordinator // the mark alone decides
		}),
		Only: Local, // a locale is replaced
		Faults: []Fault{
			pauseLeader.then(Fault{Do: Pause, On: "leader"}.then(
				Fault{Do: Kill, On: "guard-1"}.with(Fault{Do: SortAnew, On: "postgres"}),
				Fault{Do: Stray, On: "guard-1", By: ByReturning})),
		},
		Expect: demand,
	},
	{
		Name: "schema-made-anew", Rows: []int{30},
		About: "While the leader is frozen with its sessions open, the schema is dropped and " +
			"installed again: the registry of sessions is empty. The leader's guard cannot reach the " +
			"coordinator, so it does not hear of the successor, which has another guard.",
		Topology: twoGuards.with(func(t *Topology) { t.StoreLinks = true }),
		Faults: []Fault{
			Fault{Do: Stay, On: "guard of leader"}.with(
				Fault{Do: Break, On: "guard of leader", Link: "coordinator", For: sec}.
					with(pauseLeader.with(Fault{Do: Reinstall, On: "postgres"}).
						then(Fault{Do: Stray, On: "postgres", By: ByStaying}))),
		},
		Expect: demand,
	},
	{
		Name: "raise-held-back", Rows: []int{31},
		About: "What the leader's guard sends to Redis is held while a successor raises the mark " +
			"and Redis loses it; then it arrives.",
		Topology: twoGuards.with(func(t *Topology) { t.StoreLinks = true }),
		Faults: []Fault{
			Fault{Do: Hold, On: "guard of leader", Link: "redis", Direction: "up"}.with(
				// No run of Redis confirms the mark any more, so the leader raises it again.
				Fault{Do: Restart, On: "redis"},
				Fault{Do: Pause, On: "leader", After: 300 * ms, Until: NextLeader}.
					then(Fault{Do: Forget, On: "redis"})),
		},
		Expect: demand,
	},
	{
		Name: "databases-swapped-and-back", Rows: []int{32},
		About: "SWAPDB takes the marks of Redis away, and brings them back after a successor was " +
			"admitted; statistics are reset.",
		Topology: small,
		Faults: []Fault{
			Fault{Do: Pause, On: "leader"}.with(Fault{Do: Swap, On: "redis", Until: NextLeader}),
		},
		Expect: demand,
	},
	{
		Name: "databases-swapped-and-back-embedded", Rows: []int{32},
		About: "The same without a guard, and the deposed leader's script comes while both " +
			"leaders are frozen: it checks only the mark that is back.",
		Topology: withoutGuards,
		Faults: []Fault{
			Fault{Do: Pause, On: "leader"}.with(
				Fault{Do: Swap, On: "redis", Until: NextLeader, Overlap: true},
				Fault{Do: Pause, On: "leader"}.
					then(Fault{Do: Stray, On: "redis", By: ByScript})),
		},
		Expect: demand,
	},
	{
		Name: "redis-reloaded-embedded", Rows: []int{28},
		About: "Without a guard, Redis loads a file from before the successor's raise into the " +
			"same run, and the deposed leader's script comes while both leaders are frozen.",
		Topology: withoutGuards.with(func(t *Topology) { t.Debug = true }),
		Only:     Local, // Redis has to allow DEBUG
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Backup, On: "redis"}).
				then(Fault{Do: Pause, On: "leader"}.then(
					Fault{Do: Reload, On: "redis"},
					Fault{Do: Stray, On: "redis", By: ByScript})),
		},
		Expect: demand,
	},
	{
		Name: "locks-left-open", Rows: []int{34},
		About: "A transaction that has attached stays open, and twenty sessions queue for a lock " +
			"that identifies entered transactions, while leadership changes.",
		Topology: small,
		Faults:   []Fault{Fault{Do: Obstruct, On: "postgres", Until: NextLeader}.with(deposeSoon)},
		Expect:   demand,
	},
}
