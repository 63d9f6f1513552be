package scenario

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// small is enough for most scenarios: one server of the coordinator, one guard, two workers,
// sessions of a second.
var small = Topology{CoordinatorServers: 1, Guards: 1, Workers: 2, Session: sec}

// with returns a changed copy.
func (t Topology) with(change func(*Topology)) Topology {
	change(&t)
	return t
}

var (
	twoGuards     = small.with(func(t *Topology) { t.Guards = 2 })
	ensemble      = small.with(func(t *Topology) { t.CoordinatorServers = 3 })
	withLogPipes  = small.with(func(t *Topology) { t.LogPipes = true })
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

// oneServer is why a scenario in which one of several servers fails is not run with Postgres.
var oneServer = map[Elections]string{InPostgres: "Postgres is one server"}

// noStandby is why a scenario in which a standby is promoted is run only with Postgres.
var noStandby = map[Elections]string{
	InZooKeeper: "its servers elect their leader: coordinator-leader-killed",
	InEtcd:      "its members elect their leader: coordinator-leader-killed",
}

var (
	oneStale = expect(func(e *history.Expect) { e.Stale = 1 })
	// finalOnly demands a change of leadership only in the final phase.
	finalOnly = expect(func(e *history.Expect) { e.Changes, e.Stale = 1, 1 })
	// afterOutage also allows for an ensemble that has to elect a leader first.
	afterOutage = expect(func(e *history.Expect) {
		e.Changes, e.Stale, e.Recover = 1, 1, history.Duration(20*sec)
	})
	// whileItLasts also bounds the time until the next leader writes, while the fault lasts.
	whileItLasts = expect(func(e *history.Expect) { e.TakeOver = e.Recover })
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

// Catalogue has every scenario, by what the faults hit. Each group has a file.
var Catalogue = slices.Concat(leaderScenarios, commandScenarios, taskScenarios, jobScenarios,
	guardScenarios, storeScenarios, clusterScenarios, coordinatorScenarios, sqlScenarios,
	agentScenarios, []Scenario{randomMix})

var randomMix = Scenario{
	Name: "random-mix", Rows: []int{25},
	About: "Faults drawn from the seed, one after the other and sometimes two at once, for " +
		"the time given (--time).",
	Topology: Topology{CoordinatorServers: 3, Guards: 2, Workers: 3, Session: sec}, Random: true,
	Workload: Workload{Health: 3 * sec},
	Expect:   expect(func(e *history.Expect) { e.Recover = history.Duration(20 * sec) }),
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
