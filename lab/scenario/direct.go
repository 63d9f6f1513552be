package scenario

import (
	"slices"
	"strings"
)

// OverDirect returns the scenario on the path direct: Postgres itself admits the workers' sessions,
// with a login trigger. It returns false if its faults are of a guard, or need one.
func (s Scenario) OverDirect() (Scenario, bool) {
	own := s.Topology.Route == "" && (s.Workload.Kind == "" || s.Workload.Kind == Ledger) &&
		!s.Topology.Beside && !s.Topology.Agents && len(s.Expect.Refusals) == 0
	if !own || s.Random || s.has(needsGuard) {
		return s, false
	}
	s.Topology.DirectSessions, s.Only = true, Local
	return s, true
}

// needsGuard reports whether a fault hits a guard, opens sessions through one, or removes what the
// login trigger is made of.
func needsGuard(f Fault) bool {
	return strings.Contains(f.On, "guard") || slices.Contains([]Action{
		Stay, Fill, Fork, Spoil, Crowd, Stray, Turn, Reinstall, Lock, Obstruct,
	}, f.Do)
}
