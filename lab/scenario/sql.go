package scenario

import (
	"slices"

	"github.com/ringfence/ringfence/lab/history"
)

// Pooler is the PgBouncer of the path SQL. It is in transaction mode. A cluster has none: PgBouncer
// does not look which of several servers is the primary.
const Pooler = "pooler"

// sqlScenarios has what hits only programs that lead by SQL functions. They are on the path SQL,
// and run with --path sql.
var sqlScenarios = []Scenario{
	{
		Name: "sql-paused-in-each-shape", Rows: []int{13},
		About: "The leader is frozen inside transactions of all shapes: in a savepoint, in COPY, in a " +
			"long query, before a deferred trigger or a cursor WITH HOLD writes at COMMIT.",
		Topology: small.with(overSQL), Only: Local,
		Faults: []Fault{Fault{Do: Inside, On: "leader", Times: 8}.with(pauseLeader)},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale = 8, 8 }),
	},
	{
		Name: "sql-prepared-transactions", Rows: []int{44},
		About: "The same where the server allows prepared transactions: some are prepared under the " +
			"old term, and the successor rolls them back before its own begins.",
		Topology: threeOverSQL.with(func(t *Topology) {
			t.PGSettings = []string{"max_prepared_transactions=20"}
		}),
		Only:   Local,
		Faults: []Fault{Fault{Do: Inside, On: "leader", Times: 8}.with(pauseLeader)},
		Expect: expect(func(e *history.Expect) { e.Changes, e.Stale = 8, 8 }),
	},
	{
		Name: "sql-pooler-killed", Rows: []int{45},
		About: "PgBouncer is killed under load, then frozen for longer than the lease; then the leader " +
			"is frozen inside a transaction.",
		Topology: small.with(overSQL), Only: Local,
		Faults: []Fault{
			{Do: Kill, On: Pooler, For: 300 * ms},
			{Do: Pause, On: Pooler, For: 1500 * ms, After: sec},
			Fault{Do: Inside, On: "leader", After: sec}.with(pauseLeader),
		},
		Expect: demand,
	},
}

// threeOverSQL has somebody left to lead when one worker is stopped inside a transaction, has lost
// its lease by then, and the next one is frozen.
var threeOverSQL = small.with(overSQL).with(func(t *Topology) { t.Workers = 3 })

// overSQL puts a topology on the path SQL: elections, marks and work are in one database, without
// guards.
func overSQL(t *Topology) {
	t.Route, t.Elections, t.Coordinator = SQL, BySQL, NoCoordinator
	t.Guards, t.Beside, t.CoordinatorServers = 0, false, 1
}

// OverSQL returns the scenario on the path SQL; false if its faults are of something that this path
// lacks.
func (s Scenario) OverSQL() (Scenario, bool) {
	ledger := s.Workload.Kind == "" || s.Workload.Kind == Ledger
	if s.Topology.Route == "" && ledger && !s.has(notOverSQL) {
		overSQL(&s.Topology)
	}
	s.Only, s.NotOn = Local, nil
	return s, s.Topology.Route == SQL
}

// OverSQL reports whether the fault can be injected on the path SQL.
func (f Fault) OverSQL() bool { return !f.has(notOverSQL) }

func notOverSQL(f Fault) bool {
	return !slices.Contains([]Action{Pause, Stop, Kill, Restart, Cut, Hold, Slow, Inside, Depose,
		Retire, Promote, SwitchOver, Crash, Behead}, f.Do) ||
		!slices.Contains([]string{"leader", "standby", "workers", "primary", "postgres", Postgres1,
			Postgres2, Postgres3, Pooler}, f.On)
}
