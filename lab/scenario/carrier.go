package scenario

import "slices"

// OverCarrier returns the scenario on the path carrier: workers are children of leader run, know no
// token, and reach the guard through LEADER_CARRY. It returns false if the scenario needs workers
// that lead by themselves.
//
// One attempt under a stale token is enough, that of [Orphan]: the carrier closes a deposed
// leader's connections, and takes no new ones.
func (s Scenario) OverCarrier() (Scenario, bool) {
	t, w := s.Topology, s.Workload
	own := t.Route == "" && !t.Agents && w.ClockJump == 0 &&
		slices.Contains([]Kind{"", Ledger, Commands}, w.Kind)
	if !own || len(s.Expect.Refusals) > 0 || s.has(needsElector) {
		return s, false
	}
	s.Topology.Route, s.Workload.Kind = Carried, Commands
	s.Only, s.Expect.Stale = Local, 1
	return s, true
}

// needsElector reports whether a fault waits for, or changes, what a child of leader run does not
// report: who stands by, what is inside a transaction, and the issuer.
func needsElector(f Fault) bool {
	return f.On == "standby" || slices.Contains([]Action{Inside, Adopt, Renew}, f.Do)
}

// Orphan is what a process does that a deposed child has left, and that has read RINGFENCE_TOKEN:
// it goes round the carrier, and asks the guard for a session.
var Orphan = []Fault{{Do: Stray, On: "guard-1", By: ByReturning}}
