package lab

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// small is enough for most scenarios: one ZooKeeper, one guard, two workers, sessions of a second.
var small = Topology{ZooKeepers: 1, Guards: 1, Workers: 2, Session: sec}

// with returns a changed copy.
func (t Topology) with(change func(*Topology)) Topology {
	change(&t)
	return t
}

var (
	twoGuards     = small.with(func(t *Topology) { t.Guards = 2 })
	ensemble      = small.with(func(t *Topology) { t.ZooKeepers = 3 })
	withoutGuards = small.with(func(t *Topology) { t.Route = Embedded })
)

// demand is what nearly every run has to show: one change of leadership by the fault, one in the
// final phase, and attempts under stale tokens.
var demand = history.Expect{
	Changes: 2, Stale: 2, Before: 50, Recover: history.Duration(10 * sec),
}

func expect(change func(*history.Expect)) history.Expect {
	e := demand
	change(&e)
	return e
}

// task is the demand on a run of a task, whose steps take longer than entries of a ledger.
func task(change func(*history.Expect)) history.Expect {
	e := demand
	e.Before, e.Stale = 10, 1
	change(&e)
	return e
}

func nothing(*history.Expect) {}

var (
	oneStale = expect(func(e *history.Expect) { e.Stale = 1 })
	// finalOnly demands a change of leadership only in the final phase.
	finalOnly = expect(func(e *history.Expect) { e.Changes, e.Stale = 1, 1 })
	// afterOutage also allows for an ensemble that has to elect a leader first.
	afterOutage = expect(func(e *history.Expect) {
		e.Changes, e.Stale, e.Recover = 1, 1, history.Duration(20*sec)
	})
	// fewChanges allows two changes before the final phase and demands none.
	fewChanges = expect(func(e *history.Expect) { e.Changes, e.Stale, e.MostChanges = 1, 1, 2 })
)

var (
	pauseLeader = Fault{Do: Pause, On: "leader", Until: NextLeader}
	deposeSoon  = Fault{Do: Depose, On: "leader", After: 300 * ms}
)

// with returns the fault with others inside it, before it waits.
func (f Fault) with(inner ...Fault) Fault {
	f.With = inner
	return f
}

// then returns the fault with others inside it, after it has waited.
func (f Fault) then(inner ...Fault) Fault {
	f.Then = inner
	return f
}

// Catalogue has every scenario, in the order of the rows of lab/README.md.
var Catalogue = []Scenario{
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
		Name: "guard-paused", Rows: []int{9},
		About: "The only guard is frozen with bytes queued in it while leadership changes; then " +
			"it is resumed.",
		Topology: small,
		Faults:   []Fault{Fault{Do: Pause, On: "guard-1", For: 2 * sec}.with(deposeSoon)},
		Expect:   oneStale,
	},
	{
		Name: "guard-restarted-empty", Rows: []int{10},
		About: "The guard is killed, the old leader wakes, and the guard starts again: the first " +
			"token that it sees is the old one.",
		// With long sessions, so that the successor does not lose its term by itself meanwhile.
		Topology: small.with(func(t *Topology) { t.Session = 3 * sec }),
		Faults: []Fault{
			{Do: Pause, On: "leader", Until: NextLeader, Overlap: true},
			// The old leader wakes while the guard is down.
			{Do: Kill, On: "guard-1", Overlap: true},
			// Its successor is frozen, so that the old leader comes first.
			{Do: Pause, On: "leader", For: 500 * ms, Until: Tried},
		},
		Expect: demand,
	},
	{
		Name: "two-guards-one-paused", Rows: []int{11},
		About: "The leader's guard is frozen; its successor uses the other guard; then the first " +
			"guard is resumed with bytes queued in it.",
		Topology: twoGuards,
		Faults: []Fault{
			Fault{Do: Pause, On: "guard of leader", Until: NextLeader, For: sec}.with(deposeSoon),
		},
		Expect: demand,
	},
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
		Name: "redis-killed", Rows: []int{14},
		About: "Redis is killed with an append-only file that is synced once a second, and " +
			"restarted; then an old leader wakes.",
		Topology: small.with(func(t *Topology) { t.RedisFsync = "everysec" }),
		Faults:   []Fault{pauseLeader.then(Fault{Do: Kill, On: "redis", For: 500 * ms})},
		Expect:   expect(func(e *history.Expect) { e.MayLose = history.Duration(2500 * ms) }),
	},
	{
		Name: "zookeeper-follower-killed", Rows: []int{15},
		About:    "One server of the ensemble is killed and comes back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper follower", For: 2 * sec}},
		Expect: finalOnly,
	},
	{
		Name: "zookeeper-leader-killed", Rows: []int{15},
		About:    "The ensemble's leader is killed and comes back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper leader", For: 3 * sec}},
		Expect: finalOnly,
	},
	{
		Name: "zookeeper-majority-killed", Rows: []int{15},
		About:    "Two of three servers are killed: nobody can be elected until they are back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper majority", For: 3 * sec}},
		Expect: afterOutage,
	},
	{
		Name: "zookeeper-killed", Rows: []int{15},
		About:    "The whole ensemble is killed, and comes back with its data.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper", For: sec}},
		Expect: afterOutage,
	},
	{
		Name: "zookeeper-paused", Rows: []int{15},
		About:    "The whole ensemble is frozen for longer than a session.",
		Topology: ensemble, Faults: []Fault{{Do: Pause, On: "zookeeper", For: 2500 * ms}},
		Expect: afterOutage,
	},
	{
		Name: "coordinator-wiped", Rows: []int{16},
		About: "ZooKeeper loses all its data and counts from the start: everybody is refused " +
			"until an operator adopts it.",
		Topology: small,
		Faults:   []Fault{{Do: Wipe, On: "zookeeper", For: 4 * sec}, {Do: Adopt, On: "guard-1"}},
		Expect: expect(func(e *history.Expect) {
			e.Refusals, e.Stale = []string{"RF004"}, 1
		}),
	},
	{
		Name: "coordinator-restored", Rows: []int{16},
		About: "ZooKeeper is restored from a backup and issues tokens below the mark: everybody " +
			"is refused until an operator makes it a new issuer.",
		Topology: small,
		Faults: []Fault{
			{Do: Backup, On: "zookeeper"},
			pauseLeader,
			// So that the leader has a token that the backup does not know.
			{Do: Depose, On: "leader", Until: NextLeader, After: sec},
			{Do: Restore, On: "zookeeper", For: 4 * sec},
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
	{
		Name: "flapping-pauses", Rows: []int{18},
		About:    "The leader is frozen again and again, each time for less than its session.",
		Topology: small,
		Faults:   []Fault{{Do: Pause, On: "leader", For: 350 * ms, After: 350 * ms, Times: 8}},
		Expect:   fewChanges,
	},
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
		Name: "clock-jump", Rows: []int{24},
		About: "The leader's wall clock jumps an hour ahead (injected): its term uses the " +
			"monotonic clock and continues.",
		Topology: small, Workload: Workload{ClockJump: time.Hour},
		Faults: []Fault{{Do: Jump, On: "leader", For: 3 * sec}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale, e.MostChanges = 1, 1, -1 }),
	},
	{
		Name: "two-databases", Rows: []int{26},
		About: "The deposed leader finds a guard of another database on the same servers, with " +
			"other marks, and asks it for its own database.",
		Topology: small.with(func(t *Topology) {
			t.Neighbour, t.Coordinator = true, NoCoordinator // the mark alone decides
		}),
		Faults: []Fault{pauseLeader.then(Fault{Do: Stray, On: Neighbour, By: ByNeighbour})},
		Expect: demand,
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
		Name: "marks-restored", Rows: []int{28},
		About: "Marks that were dumped under the leader are restored after its successor has " +
			"written: the old mark is the leader's own.",
		Topology: small,
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Backup, On: onlyMarks}).
				then(Fault{Do: Restore, On: onlyMarks}),
		},
		Expect: demand,
	},
	{
		Name: "marks-restored-embedded", Rows: []int{28},
		About:    "The same without a guard: each transaction checks only the marks.",
		Topology: withoutGuards,
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Backup, On: onlyMarks}).
				then(Fault{Do: Restore, On: onlyMarks}),
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
		Name: "balancer-before-postgres", Rows: []int{29},
		About: "The leader's guard has its control connections at a copy of Postgres that still " +
			"runs, and its clients' connections at the real one.",
		Topology: twoGuards.with(func(t *Topology) {
			t.StoreLinks, t.Copy = true, true
			t.Coordinator = NoCoordinator // the mark alone decides
		}),
		Faults: []Fault{
			pauseLeader.with(Fault{Do: Turn, On: "guard of leader", To: Postgres2}.
				with(Fault{Do: Kill, On: "guard of leader"})),
		},
		Expect: demand,
	},
	{
		Name: "schema-made-anew", Rows: []int{30},
		About: "While the leader is frozen with its sessions open, the schema is dropped and " +
			"installed again: the registry of sessions is empty.",
		Topology: small,
		Faults:   []Fault{pauseLeader.with(Fault{Do: Reinstall, On: "postgres"})}, Expect: demand,
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
			"admitted.",
		Topology: small,
		Faults: []Fault{
			Fault{Do: Pause, On: "leader"}.with(Fault{Do: Swap, On: "redis", Until: NextLeader}),
		},
		Expect: demand,
	},
	{
		Name: "publish-forged", Rows: []int{33},
		About: "A deposed leader publishes a checkpoint with the setting of an entered " +
			"transaction, without having entered.",
		Topology: small, Workload: Workload{Kind: Tasks},
		Faults: []Fault{pauseLeader.then(Fault{Do: Stray, On: "postgres", By: ByForgery})},
		Expect: task(nothing),
	},
	{
		Name: "locks-left-open", Rows: []int{34},
		About: "A transaction that has attached stays open, and twenty sessions queue for a lock " +
			"that identifies entered transactions, while leadership changes.",
		Topology: small,
		Faults:   []Fault{Fault{Do: Obstruct, On: "postgres", Until: NextLeader}.with(deposeSoon)},
		Expect:   demand,
	},
	{
		Name: "crowd-at-the-guard", Rows: []int{35},
		About: "Three times as many clients as the guard takes stall in their logins, and " +
			"reconnect when they are ended, while leadership changes.",
		Topology: small.with(func(t *Topology) {
			t.GuardSettings = []string{"GUARD_MAX_UNADMITTED=60", "GUARD_MAX_LOGINS=10"}
		}),
		Faults: []Fault{
			Fault{Do: Crowd, On: "guard-1", Until: NextLeader, For: 2 * sec}.
				with(Fault{Do: Depose, On: "leader", After: sec}),
		},
		Expect: demand,
	},
	{
		Name: "random-mix", Rows: []int{25},
		About: "Faults drawn from the seed, one after the other and sometimes two at once, for " +
			"the time given (--time).",
		Topology: Topology{ZooKeepers: 3, Guards: 2, Workers: 3, Session: sec}, Random: true,
		Workload: Workload{Health: 3 * sec},
		Expect:   expect(func(e *history.Expect) { e.Recover = history.Duration(20 * sec) }),
	},
}

// Find returns a scenario by its name.
func Find(name string) (Scenario, bool) {
	for _, s := range Catalogue {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}
