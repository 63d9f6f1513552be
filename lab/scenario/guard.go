package scenario

import "github.com/ringfence/ringfence/lab/history"

// guardScenarios has the faults of guards, and the ways past a guard.
var guardScenarios = []Scenario{
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
		Name: "answer-nobody-asked-for", Rows: []int{41},
		About: "A session of the leader has Postgres send an answer that nobody asked for, so its " +
			"guard counts it as at rest while a write of it is under way to Postgres. The write " +
			"arrives after a successor has written.",
		Topology: small.with(func(t *Topology) {
			// Otherwise the guard also hears of the successor from the coordinator, and often has
			// Postgres end all older sessions.
			t.StoreLinks, t.Coordinator = true, NoCoordinator
		}),
		Only:   Local, // one connection of a link is held
		Faults: []Fault{Fault{Do: Spoil, On: "guard-1", Until: NextLeader}.with(deposeSoon)},
		Expect: demand,
	},
	{
		Name: "connection-half-open", Rows: []int{42},
		About: "A session of the leader keeps the ledger locked in an open transaction. The " +
			"successor's guard ends it, but the end of its connection never arrives at Postgres.",
		Topology: small.with(func(t *Topology) {
			t.StoreLinks, t.Coordinator = true, NoCoordinator // as above
		}),
		Only: Local, // packets of a link are lost by what they say
		Faults: []Fault{
			Fault{Do: LoseEnds, On: "guard-1", Link: "postgres"}.
				with(Fault{Do: Lock, On: "guard-1"}.with(pauseLeader)),
		},
		Expect: demand,
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
		Name: "postgres-filled", Rows: []int{47},
		About: "Idle sessions of the leader, through both guards, use up every connection that " +
			"Postgres has. They stay open while the leader is frozen and another one takes over.",
		Topology: twoGuards.with(func(t *Topology) { t.PGSettings = []string{"max_connections=40"} }),
		Faults:   []Fault{Fault{Do: Fill, On: "postgres"}.with(pauseLeader)},
		Expect:   whileItLasts,
	},
	{
		Name: "redis-filled", Rows: []int{47},
		About:    "The same with Redis, whose maxclients is far below the limit of a guard.",
		Topology: twoGuards.with(func(t *Topology) { t.RedisSettings = []string{"maxclients=40"} }),
		Only:     Local, // compose.yaml has no variable for maxclients
		Faults:   []Fault{Fault{Do: Fill, On: "redis"}.with(pauseLeader)},
		Expect:   whileItLasts,
	},
	{
		Name: "guard-log-stuck", Rows: []int{48},
		About: "The guard's log is a pipe that is full and that nothing reads while leadership " +
			"changes.",
		Topology: withLogPipes,
		Only:     Local, // the lab reads the log
		Faults: []Fault{
			Fault{Do: Clog, On: "guard-1", Until: NextLeader, For: 2 * sec}.with(deposeSoon),
		},
		Expect: expect(func(e *history.Expect) { e.TakeOver = history.Duration(10 * sec) }),
	},
}
