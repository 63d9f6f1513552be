package scenario

import "slices"

// OverCarrier returns the scenario on the path carrier: workers are children of leader run, know no token, and reach the
// guard through LEADER_CARRY. It returns false if the scenario needs workers that lead by themselves.
func (s Scenario) OverCarrier() (Scenario, bool) {
	kinds := []Kind{"", Ledger, Commands}
	if s.Topology.Route != "" || !slices.Contains(kinds, s.Workload.Kind) || slices.ContainsFunc(s.Faults, needsElector) {
		return s, false
	}
	s.Topology.Route, s.Workload.Kind = Carried, Commands
	s.Only = Local
	return s, true
}

// needsElector reports whether a fault waits for what leader run does not report.
func needsElector(f Fault) bool {
	return f.On == "standby" || f.Do == Inside || slices.ContainsFunc(slices.Concat(f.With, f.Then), needsElector)
}
