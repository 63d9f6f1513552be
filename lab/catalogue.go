package lab

import (
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// small is enough for most: one ZooKeeper, one guard, two workers, sessions of a second.
var small = Topology{ZooKeepers: 1, Guards: 1, Workers: 2, Session: sec}

// with changes a topology.
func (t Topology) with(change func(*Topology)) Topology {
	change(&t)
	return t
}

var (
	twoGuards     = small.with(func(t *Topology) { t.Guards = 2 })
	ensemble      = small.with(func(t *Topology) { t.ZooKeepers = 3 })
	withoutGuards = small.with(func(t *Topology) { t.Route = Embedded })
)

// demand is what nearly every run has to show: one change by the fault, one by the coda, and attempts under stale tokens.
var demand = history.Expect{Changes: 2, Stale: 2, Before: 50, Recover: history.Duration(10 * sec)}

func expect(change func(*history.Expect)) history.Expect {
	e := demand
	change(&e)
	return e
}

// task is a demand on a run of a task, whose steps take longer than a ledger's entries.
func task(change func(*history.Expect)) history.Expect {
	e := demand
	e.Before, e.Stale = 10, 1
	change(&e)
	return e
}

func nothing(*history.Expect) {}

// Catalogue is every scenario, in the order of the rows of lab/README.md.
var Catalogue = []Scenario{
	{
		Name: "leader-paused", Rows: []int{1},
		About:    "The leader is frozen past its session, another one takes over, the first one wakes and writes on.",
		Topology: small, Faults: []Fault{{Do: Pause, On: "leader", Until: NextLeader}}, Expect: demand,
	},
	{
		Name: "leader-paused-embedded", Rows: []int{1},
		About:    "The same without a guard in between: each transaction and each script carries the token itself.",
		Topology: withoutGuards, Faults: []Fault{{Do: Pause, On: "leader", Until: NextLeader}}, Expect: demand,
	},
	{
		Name: "leader-stopped", Rows: []int{2},
		About:    "The leader's program alone is stopped (SIGSTOP); what it has started goes on.",
		Topology: small, Faults: []Fault{{Do: Stop, On: "leader", Until: NextLeader}}, Expect: demand,
	},
	{
		Name: "leader-cut-from-coordinator", Rows: []int{3},
		About:    "The leader reaches the guard and no longer the coordinator: it must step down by its own clock.",
		Topology: small, Faults: []Fault{{Do: Cut, On: "leader", Link: "coordinator", Until: NextLeader}},
		Expect: expect(func(e *history.Expect) { e.StepDown = history.Duration(1500 * ms) }),
	},
	{
		Name: "leader-cut-from-guard", Rows: []int{4},
		About:    "The leader keeps its session and reaches no guard: a health rule of its own makes it resign.",
		Topology: small, Workload: Workload{Health: 1500 * ms},
		Faults: []Fault{{Do: Cut, On: "leader", Link: "guard", Until: NextLeader}},
		Expect: expect(func(e *history.Expect) { e.Stale = 1 }),
	},
	{
		Name: "one-way-loss", Rows: []int{5},
		About:    "What the leader sends does not reach the coordinator; later, what the coordinator answers does not reach the leader.",
		Topology: small,
		Faults: []Fault{
			{Do: Hold, On: "leader", Link: "coordinator", Direction: "up", Until: NextLeader},
			{Do: Hold, On: "leader", Link: "coordinator", Direction: "down", Until: NextLeader, After: sec},
		},
		Expect: expect(func(e *history.Expect) { e.Changes = 3 }),
	},
	{
		Name: "old-write-in-flight", Rows: []int{6},
		About:    "Nobody is paused: a write is on its way while the leader is deposed, and arrives when its successor has written.",
		Topology: small,
		Faults:   []Fault{{Do: Hold, On: "leader", Link: "guard", Direction: "up", With: []Fault{{Do: Depose, On: "leader", After: 300 * ms}}, Until: NextLeader}},
		Expect:   demand,
	},
	{
		Name: "killed-mid-step", Rows: []int{7},
		About:    "Leaders of a task are killed before an effect, before a checkpoint and after it.",
		Topology: small.with(func(t *Topology) { t.Workers = 3 }),
		Workload: Workload{Kind: Tasks, Failpoints: map[string]string{"worker-1": "before effect:41", "worker-2": "before publish:31", "worker-3": "after publish:21"}},
		Faults:   []Fault{{Do: Kill, On: "leader", Until: NextLeader, After: 3 * sec, Times: 2}},
		Expect:   task(func(e *history.Expect) { e.Kills = 2 }),
	},
	{
		Name: "killed-before-publish", Rows: []int{8},
		About:    "Leaders are killed between the effect of an asynchronous step and its checkpoint: the step is run again, with the same key.",
		Topology: small,
		Workload: Workload{Kind: Tasks, Failpoints: map[string]string{"worker-1": "after effect:32", "worker-2": "after effect:26"}},
		Faults:   []Fault{{Do: Kill, On: "leader", Until: NextLeader, After: 3 * sec}},
		Expect:   task(func(e *history.Expect) { e.Kills = 1 }),
	},
	{
		Name: "task-leader-paused", Rows: []int{1, 7},
		About:    "The leader of a task is frozen in the middle of it; when it wakes its successor has gone on.",
		Topology: small, Workload: Workload{Kind: Tasks}, Faults: []Fault{{Do: Pause, On: "leader", Until: NextLeader}},
		Expect: task(nothing),
	},
	{
		Name: "guard-paused", Rows: []int{9},
		About:    "The only guard stands still with bytes queued in it while leadership changes; then it goes on.",
		Topology: small,
		Faults:   []Fault{{Do: Pause, On: "guard-1", With: []Fault{{Do: Depose, On: "leader", After: 300 * ms}}, For: 2 * sec}},
		Expect:   expect(func(e *history.Expect) { e.Stale = 1 }),
	},
	{
		Name: "guard-restarted-empty", Rows: []int{10},
		About:    "The guard is killed, the old leader wakes, and the guard starts again: the first that it hears of is the old token.",
		Topology: small.with(func(t *Topology) { t.Session = 3 * sec }), // the successor must not lose its term meanwhile by itself
		Faults: []Fault{
			{Do: Pause, On: "leader", Until: NextLeader, Overlap: true},
			{Do: Kill, On: "guard-1", Overlap: true},               // the old leader wakes while the guard is down
			{Do: Pause, On: "leader", For: 500 * ms, Until: Tried}, // its successor stands still, so that the old one comes first
		},
		Expect: demand,
	},
	{
		Name: "two-guards-one-paused", Rows: []int{11},
		About:    "The leader's guard stands still; its successor goes through the other one; then the first guard goes on with what is queued in it.",
		Topology: twoGuards,
		Faults:   []Fault{{Do: Pause, On: "guard of leader", With: []Fault{{Do: Depose, On: "leader", After: 300 * ms}}, Until: NextLeader, For: sec}},
		Expect:   demand,
	},
	{
		Name: "postgres-killed", Rows: []int{12},
		About:    "Postgres is killed under load and recovers; later it stands still for a while; then it is restarted in order.",
		Topology: small,
		Faults: []Fault{
			{Do: Kill, On: "postgres", For: 500 * ms}, {Do: Pause, On: "postgres", For: 1500 * ms, After: 1500 * ms},
			{Do: Restart, On: "postgres", After: sec},
		},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale = 1, 1 }),
	},
	{
		Name: "postgres-killed-in-a-task", Rows: []int{12},
		About:    "The same under a task: a COMMIT whose answer was lost is read back, and each effect is there once.",
		Topology: small, Workload: Workload{Kind: Tasks},
		Faults: []Fault{{Do: Kill, On: "postgres", For: 500 * ms}, {Do: Pause, On: "postgres", For: 1500 * ms, After: 2 * sec}},
		Expect: task(func(e *history.Expect) { e.Changes = 1 }),
	},
	{
		Name: "paused-inside-transaction", Rows: []int{13},
		About:    "The leader is frozen inside an open transaction that holds a row which its successor needs.",
		Topology: small,
		Faults:   []Fault{{Do: Inside, On: "leader", With: []Fault{{Do: Pause, On: "leader", Until: NextLeader}}}},
		Expect:   demand,
	},
	{
		Name: "paused-inside-transaction-embedded", Rows: []int{13},
		About:    "The same without a guard in between.",
		Topology: withoutGuards,
		Faults:   []Fault{{Do: Inside, On: "leader", With: []Fault{{Do: Pause, On: "leader", Until: NextLeader}}}},
		Expect:   demand,
	},
	{
		Name: "redis-killed", Rows: []int{14},
		About:    "Redis is killed with an append-only file that is synced once a second, and restarted; then an old leader wakes.",
		Topology: small.with(func(t *Topology) { t.RedisFsync = "everysec" }),
		Faults: []Fault{
			{Do: Pause, On: "leader", Until: NextLeader, Then: []Fault{{Do: Kill, On: "redis", For: 500 * ms}}},
		},
		Expect: expect(func(e *history.Expect) { e.MayLose = history.Duration(2500 * ms) }),
	},
	{
		Name: "zookeeper-follower-killed", Rows: []int{15},
		About:    "One server of the ensemble is killed and comes back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper follower", For: 2 * sec}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale = 1, 1 }),
	},
	{
		Name: "zookeeper-leader-killed", Rows: []int{15},
		About:    "The ensemble's leading server is killed and comes back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper leader", For: 3 * sec}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale = 1, 1 }),
	},
	{
		Name: "zookeeper-majority-killed", Rows: []int{15},
		About:    "Two of three servers are killed: nobody can be elected until they are back.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper majority", For: 3 * sec}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale, e.Recover = 1, 1, history.Duration(20*sec) }),
	},
	{
		Name: "zookeeper-killed", Rows: []int{15},
		About:    "All of the ensemble is killed, and comes back with its data.",
		Topology: ensemble, Faults: []Fault{{Do: Kill, On: "zookeeper", For: sec}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale, e.Recover = 1, 1, history.Duration(20*sec) }),
	},
	{
		Name: "zookeeper-paused", Rows: []int{15},
		About:    "All of the ensemble stands still for longer than a session.",
		Topology: ensemble, Faults: []Fault{{Do: Pause, On: "zookeeper", For: 2500 * ms}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale, e.Recover = 1, 1, history.Duration(20*sec) }),
	},
	{
		Name: "coordinator-wiped", Rows: []int{16},
		About:    "ZooKeeper loses all its data and counts from the start: everybody is refused until an operator adopts it.",
		Topology: small,
		Faults:   []Fault{{Do: Wipe, On: "zookeeper", For: 4 * sec}, {Do: Adopt, On: "guard-1"}},
		Expect:   expect(func(e *history.Expect) { e.Refusals, e.Stale = []string{"RF004"}, 1 }),
	},
	{
		Name: "coordinator-restored", Rows: []int{16},
		About:    "ZooKeeper is restored from a backup and gives out tokens below the mark: everybody is refused until an operator makes it another issuer.",
		Topology: small,
		Faults: []Fault{
			{Do: Backup, On: "zookeeper"}, {Do: Pause, On: "leader", Until: NextLeader},
			{Do: Depose, On: "leader", Until: NextLeader, After: sec}, // so that a token leads which the backup does not know
			{Do: Restore, On: "zookeeper", For: 4 * sec},
			{Do: Kill, On: "workers", With: []Fault{{Do: Renew, On: "guard-1"}}}, // nobody leads meanwhile
		},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Refusals = 3, []string{"RF004"} }),
	},
	{
		Name: "slow-coordinator", Rows: []int{17},
		About:    "The leader's link to the coordinator has a delay of 300 ms and loses a tenth of its packets.",
		Topology: small.with(func(t *Topology) { t.Session = 2 * sec }),
		Faults:   []Fault{{Do: Slow, On: "leader", Link: "coordinator", Delay: 150 * ms, Loss: 0.1, For: 8 * sec}},
		Expect:   expect(func(e *history.Expect) { e.Changes, e.Stale, e.MostChanges = 1, 1, 2 }),
	},
	{
		Name: "flapping-pauses", Rows: []int{18},
		About:    "The leader is frozen again and again, each time for less than its session.",
		Topology: small,
		Faults:   []Fault{{Do: Pause, On: "leader", For: 350 * ms, After: 350 * ms, Times: 8}},
		Expect:   expect(func(e *history.Expect) { e.Changes, e.Stale, e.MostChanges = 1, 1, 2 }),
	},
	{
		Name: "leader-run-beheaded", Rows: []int{22}, Only: Local, // the end of a container's first process is the end of all
		About:    "leader run is killed with -9 and cannot end its child: what lives on is refused by the guard.",
		Topology: small, Workload: Workload{Kind: Commands},
		Faults: []Fault{{Do: Behead, On: "leader", Until: NextLeader}}, Expect: expect(func(e *history.Expect) { e.Stale = 1 }),
	},
	{
		Name: "leader-run-stopped", Rows: []int{22},
		About:    "leader run is stopped and its child is not: the child writes on under a term that is over.",
		Topology: small, Workload: Workload{Kind: Commands},
		Faults: []Fault{{Do: Stop, On: "leader", Until: NextLeader}}, Expect: expect(func(e *history.Expect) { e.Stale = 1 }),
	},
	{
		Name: "leader-run-deaf-child", Rows: []int{22},
		About:    "The leader is deposed and its child ignores SIGTERM.",
		Topology: small, Workload: Workload{Kind: Commands, Child: "ignore-term"},
		Faults: []Fault{{Do: Depose, On: "leader", Until: NextLeader}}, Expect: expect(func(e *history.Expect) { e.Stale = 1 }),
	},
	{
		Name: "leader-run-forking-child", Rows: []int{22},
		About:    "The child of leader run has left the writing to a child of its own when the leader is deposed.",
		Topology: small, Workload: Workload{Kind: Commands, Child: "fork"},
		Faults: []Fault{{Do: Depose, On: "leader", Until: NextLeader}}, Expect: expect(func(e *history.Expect) { e.Stale = 1 }),
	},
	{
		Name: "stale-prefetch", Rows: []int{23},
		About:    "A standby hears of checkpoints late, and takes over: what it has read ahead is compared before its first write.",
		Topology: small, Workload: Workload{Kind: Tasks},
		Faults: []Fault{{Do: Slow, On: "standby", Link: "journal", Delay: 150 * ms, With: []Fault{{Do: Kill, On: "leader", After: 2 * sec, Until: NextLeader}}}},
		Expect: task(nothing),
	},
	{
		Name: "clock-jump", Rows: []int{24},
		About:    "The leader's wall clock jumps an hour ahead (injected): its term is reckoned on the monotonic clock and goes on.",
		Topology: small, Workload: Workload{ClockJump: time.Hour},
		Faults: []Fault{{Do: Jump, On: "leader", For: 3 * sec}},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale, e.MostChanges = 1, 1, -1 }),
	},
	{
		Name: "two-databases", Rows: []int{26},
		About:    "The deposed leader finds a guard of another database on the same servers, whose marks know nothing of it, and asks for its own database.",
		Topology: small.with(func(t *Topology) { t.Neighbour, t.Coordinator = true, "none" }), // the mark alone decides
		Faults:   []Fault{{Do: Pause, On: "leader", Until: NextLeader, Then: []Fault{{Do: Stray, On: Neighbour, By: ByNeighbour}}}},
		Expect:   demand,
	},
	{
		Name: "redis-switched-over-and-back", Rows: []int{27},
		About:    "The leader's connection to Redis stays open while the replica becomes the primary, takes a successor's writes, and gives the place back.",
		Topology: small.with(func(t *Topology) { t.StoreLinks, t.Replica = true, true }),
		Faults: []Fault{{
			Do: Pause, On: "leader", With: []Fault{{Do: SwitchOver, On: "redis"}}, Until: NextLeader,
			Then: []Fault{{Do: SwitchOver, On: "redis", For: sec, Until: Written}},
		}},
		Expect: demand,
	},
	{
		Name: "marks-restored", Rows: []int{28},
		About:    "Marks that were dumped under the leader are restored after its successor has written: the old mark is the leader's own.",
		Topology: small,
		Faults: []Fault{{
			Do: Pause, On: "leader", With: []Fault{{Do: Backup, On: marksAlone}}, Until: NextLeader, Then: []Fault{{Do: Restore, On: marksAlone}},
		}},
		Expect: demand,
	},
	{
		Name: "marks-restored-embedded", Rows: []int{28},
		About:    "The same without a guard in between: each transaction asks the marks alone.",
		Topology: withoutGuards,
		Faults: []Fault{{
			Do: Pause, On: "leader", With: []Fault{{Do: Backup, On: marksAlone}}, Until: NextLeader, Then: []Fault{{Do: Restore, On: marksAlone}},
		}},
		Expect: demand,
	},
	{
		Name: "postgres-set-back", Rows: []int{28},
		About:    "A snapshot of the disk of Postgres, taken under the leader, is put in its place after its successor has written.",
		Topology: small,
		Faults: []Fault{{
			Do: Pause, On: "leader", With: []Fault{{Do: Backup, On: "postgres"}}, Until: NextLeader, Then: []Fault{{Do: Restore, On: "postgres"}},
		}},
		Expect: expect(func(e *history.Expect) { e.MayLose = history.Duration(time.Minute) }),
	},
	{
		Name: "balancer-before-postgres", Rows: []int{29},
		About:    "The leader's guard holds its control connections at a copy of Postgres that still runs, and gets clients' connections to the real one.",
		Topology: twoGuards.with(func(t *Topology) { t.StoreLinks, t.Copy, t.Coordinator = true, true, "none" }), // the mark alone decides
		Faults: []Fault{{
			Do: Pause, On: "leader", Until: NextLeader,
			With: []Fault{{Do: Turn, On: "guard of leader", To: Postgres2, With: []Fault{{Do: Kill, On: "guard of leader"}}}},
		}},
		Expect: demand,
	},
	{
		Name: "schema-made-anew", Rows: []int{30},
		About:    "While the leader stands still with its sessions open, the schema is dropped and installed: the registry of sessions is empty.",
		Topology: small, Faults: []Fault{{Do: Pause, On: "leader", With: []Fault{{Do: Reinstall, On: "postgres"}}, Until: NextLeader}},
		Expect: demand,
	},
	{
		Name: "raise-held-back", Rows: []int{31},
		About:    "What the leader's guard asks of Redis is held back while a successor raises the mark and Redis loses it; then it arrives.",
		Topology: twoGuards.with(func(t *Topology) { t.StoreLinks = true }),
		Faults: []Fault{{
			Do: Hold, On: "guard of leader", Link: "redis", Direction: "up",
			With: []Fault{
				{Do: Restart, On: "redis"}, // no run of Redis confirms the mark any more, so the leader raises it again
				{Do: Pause, On: "leader", After: 300 * ms, Until: NextLeader, Then: []Fault{{Do: Forget, On: "redis"}}},
			},
		}},
		Expect: demand,
	},
	{
		Name: "databases-swapped-and-back", Rows: []int{32},
		About:    "SWAPDB takes the marks of Redis away and brings them back after a successor was let in.",
		Topology: small, Faults: []Fault{{Do: Pause, On: "leader", With: []Fault{{Do: Swap, On: "redis", Until: NextLeader}}}},
		Expect: demand,
	},
	{
		Name: "publish-forged", Rows: []int{33},
		About:    "A deposed leader publishes a checkpoint with the setting that an entered transaction has, and has not entered.",
		Topology: small, Workload: Workload{Kind: Tasks},
		Faults: []Fault{{Do: Pause, On: "leader", Until: NextLeader, Then: []Fault{{Do: Stray, On: "postgres", By: ByForgery}}}},
		Expect: task(nothing),
	},
	{
		Name: "locks-left-open", Rows: []int{34},
		About:    "A transaction that has attached stays open, and twenty sessions queue for a lock by which those inside are known, while leadership changes.",
		Topology: small,
		Faults:   []Fault{{Do: Obstruct, On: "postgres", With: []Fault{{Do: Depose, On: "leader", After: 300 * ms}}, Until: NextLeader}},
		Expect:   demand,
	},
	{
		Name: "crowd-at-the-guard", Rows: []int{35},
		About: "Three times as many clients as have room stall in their logins, and come back when they are ended, while leadership changes.",
		Topology: small.with(func(t *Topology) {
			t.GuardSettings = []string{"GUARD_MAX_UNADMITTED=60", "GUARD_MAX_LOGINS=10"}
		}),
		Faults: []Fault{{Do: Crowd, On: "guard-1", With: []Fault{{Do: Depose, On: "leader", After: sec}}, Until: NextLeader, For: 2 * sec}},
		Expect: demand,
	},
	{
		Name: "random-mix", Rows: []int{25},
		About:    "Faults drawn from the seed, one after the other and some at once, for as long as asked (--time).",
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
